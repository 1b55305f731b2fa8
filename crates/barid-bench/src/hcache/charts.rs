//! The charts of the bench, drawn from its results.

use super::chart::{Bar, Chart, Group};
use super::key::{Key, System, Work};
use super::method::METHODS;
use super::plan::Plan;
use super::results::Results;
use super::tables::keys;
use crate::lab::Figures;

/// A kind of chart: its file, texts, and the figure that it shows.
pub(crate) struct Kind {
    pub(crate) file: &'static str,
    title: &'static str,
    unit: &'static str,
    work: Work,
    figure: fn(&Figures) -> f64,
}

/// The charts of every bench.
pub(crate) const KINDS: [Kind; 3] = [
    Kind {
        file: "populate.svg",
        title: "Populating an empty header cache",
        unit: "seconds, median; the line is least to most",
        work: Work::Populate,
        figure: |figures| figures.real_s,
    },
    Kind {
        file: "reload.svg",
        title: "Reloading every record of a header cache",
        unit: "seconds, median; the line is least to most",
        work: Work::Reload,
        figure: |figures| figures.real_s,
    },
    Kind {
        file: "size.svg",
        title: "Size of a header cache on the disk",
        unit: "megabytes (1,000,000 bytes) allocated",
        work: Work::Reload,
        figure: |figures| figures.index_bytes as f64 / 1e6,
    },
];

/// Draws a chart.
pub(crate) fn chart(kind: &Kind, plan: &Plan, results: &Results, subtitle: &str) -> Chart {
    let series = series(plan);
    let mut groups: Vec<Group> = Vec::new();
    for key in keys(plan) {
        let Some(spread) = results.of(key, kind.work).spread(kind.figure) else { continue };
        let method = key.method.to_string();
        let bar = Bar {
            series: series.iter().position(|name| *name == method).unwrap_or_default(),
            is_pale: key.system == System::NeoMutt,
            value: spread.median,
            least: spread.least,
            most: spread.most,
        };
        let label = label(key, plan);
        match groups.iter_mut().find(|group| group.label == label) {
            Some(group) => group.bars.push(bar),
            None => groups.push(Group { label, bars: vec![bar] }),
        }
    }
    let has_neomutt = plan.of_neomutt().next().is_some();
    Chart {
        title: kind.title.to_owned(),
        subtitle: subtitle.to_owned(),
        unit: kind.unit,
        series,
        pale: has_neomutt.then(|| "pale: NeoMutt with the same store and compression".to_owned()),
        groups,
    }
}

/// Returns the compressions of a plan, in a fixed order.
fn series(plan: &Plan) -> Vec<String> {
    let mut methods: Vec<_> = keys(plan).map(|key| key.method).collect();
    methods.sort_by_key(|method| METHODS.iter().position(|name| *name == method.name()));
    let mut names: Vec<String> = methods.iter().map(ToString::to_string).collect();
    names.dedup();
    names
}

/// Returns the group of a setup: its store. If only NeoMutt uses the store, as the peer of the
/// native cache, the setup has a group of its own.
fn label(key: &Key, plan: &Plan) -> String {
    let is_ours = |cell: &super::plan::Cell| cell.key.store == key.store;
    match key.system {
        System::NeoMutt if !plan.cells.iter().any(is_ours) => format!("({})", key.store),
        _ => key.choice(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hcache::testing;

    #[test]
    fn neomutt_stands_beside_barid() {
        let (plan, results) = testing::plan_and_results();
        let chart = chart(&KINDS[0], &plan, &results, "");
        assert_eq!(chart.series, ["none", "zstd"]);
        let [group] = &chart.groups[..] else { panic!("{:?}", chart.groups) };
        let bars: Vec<_> = group.bars.iter().map(|bar| (bar.series, bar.is_pale)).collect();
        assert_eq!(bars, [(0, false), (0, true), (1, false), (1, true)]);
    }
}
