//! The tables of the bench, made from its results.

use super::key::{Key, System, Work};
use super::plan::{Cell, Plan};
use super::results::{Column, Results};
use crate::lab::{Figures, Spread, Table};

/// Returns every setup that runs, in the order of the plan, NeoMutt's after barid's.
pub(crate) fn keys(plan: &Plan) -> impl Iterator<Item = &Key> {
    plan.cells.iter().flat_map(|cell| std::iter::once(&cell.key).chain(&cell.neomutt))
}

/// Returns the mean times of an operation, with a row for each setup.
pub(crate) fn times(plan: &Plan, results: &Results, work: Work) -> String {
    let mut table = Table::new(3, ["", "", "", "real", "user", "sys"]);
    for key in keys(plan) {
        let mean = |figure: fn(&Figures) -> f64| {
            let spread = results.of(key, work).spread(figure)?;
            Some(format!("{:.3}", spread.mean))
        };
        let times = [mean(|f| f.real_s), mean(|f| f.user_s), mean(|f| f.sys_s)];
        let [Some(real), Some(user), Some(sys)] = times else { continue };
        let mut row = names(plan, key);
        row.extend([real, user, sys]);
        table.row(row);
    }
    table.text()
}

/// Returns size on the disk and peak of resident memory at each operation, in megabytes, with a row
/// for each setup.
pub(crate) fn sizes(plan: &Plan, results: &Results) -> String {
    let mut table =
        Table::new(3, ["", "", "", "size MB", "populate MB", "reload MB", "newest 50 MB"]);
    for key in keys(plan) {
        let most = |work, figure: fn(&Figures) -> u64, decimals: usize| {
            let spread = results.of(key, work).spread(|figures| figure(figures) as f64);
            spread.map_or_else(String::new, |spread| format!("{:.decimals$}", spread.most / 1e6))
        };
        let size = most(Work::Reload, |figures| figures.index_bytes, 3);
        if size.is_empty() {
            continue;
        }
        let peak = |work| most(work, |figures| figures.maxrss_bytes, 1);
        let mut row = names(plan, key);
        row.push(size);
        row.extend([Work::Populate, Work::Reload, Work::Page].map(peak));
        table.row(row);
    }
    table.text()
}

/// Returns the first cells of a row.
fn names(plan: &Plan, key: &Key) -> Vec<String> {
    let system = if key.system == System::NeoMutt { "(neomutt)" } else { "" };
    let method = if plan.has_methods { key.method.to_string() } else { String::new() };
    vec![key.choice(), method, system.to_owned()]
}

/// The columns of the Markdown logs.
const LOG_HEAD: [&str; 10] = [
    "Real",
    "User",
    "Sys",
    "MaxMem",
    "DBSize",
    "Backend",
    "Builtin Compress",
    "Generic Compress",
    "PageFaults",
    "FS Outputs",
];

/// Returns the means of one system's runs at an operation: seconds, kilobytes of 1,024 bytes, the
/// sum of major and minor faults, and blocks of 512 bytes.
pub(crate) fn log(plan: &Plan, results: &Results, system: System, work: Work) -> String {
    let mut table = Table::new(0, LOG_HEAD);
    for key in keys(plan).filter(|key| key.system == system) {
        let mean = |figure: &dyn Fn(&Figures) -> f64| {
            results.of(key, work).spread(figure).map(|spread| spread.mean).unwrap_or_default()
        };
        if results.of(key, work).len() == 0 {
            continue;
        }
        table.row(vec![
            format!("{:.3}", mean(&|f| f.real_s)),
            format!("{:.3}", mean(&|f| f.user_s)),
            format!("{:.3}", mean(&|f| f.sys_s)),
            format!("{:.0}", mean(&|f| f.maxrss_bytes as f64 / 1024.0)),
            format!("{:.0}", mean(&|f| f.index_bytes as f64 / 1024.0)),
            key.store.clone(),
            key.builtin.clone().unwrap_or_else(|| "none".to_owned()),
            key.method.to_string(),
            format!("{:.0}", mean(&|f| (f.minor_faults + f.major_faults) as f64)),
            format!("{:.0}", mean(&|f| f.fs_outputs as f64)),
        ]);
    }
    table.markdown()
}

/// Describes the counterpart of a setup.
fn versus(cell: &Cell) -> String {
    match cell.compared_with.as_slice() {
        [] => "-".to_owned(),
        [one] => format!("{} {}", one.store, one.method),
        [first, ..] => format!("its best with {}", first.method),
    }
}

/// Lists the setups without a NeoMutt counterpart; `None` if all have one.
pub(crate) fn not_compared(plan: &Plan) -> Option<String> {
    let name = |key: &Key| format!("{} {}", key.choice(), key.method);
    let names: Vec<String> = plan.without_peer().map(name).collect();
    (!names.is_empty()).then(|| format!("(neomutt has none such: {})", names.join(", ")))
}

/// Returns the ratios of barid to NeoMutt, with a row for each setup that has a counterpart.
pub(crate) fn ratios(plan: &Plan, results: &Results) -> Table {
    let [a, b, c, d, e, f] = Column::ALL.map(Column::name);
    let mut table = Table::new(3, ["barid", "", "neomutt", a, b, c, d, e, f]);
    for cell in plan.cells.iter().filter(|cell| !cell.compared_with.is_empty()) {
        let ratio = |column| {
            let ratio = results.ratio(cell, column);
            ratio.map_or_else(|| "-".to_owned(), |ratio| ratio.text_with_spread())
        };
        let mut row = vec![cell.key.choice(), cell.key.method.to_string(), versus(cell)];
        row.extend(Column::ALL.map(ratio));
        table.row(row);
    }
    table
}

/// Returns medians and spreads of all figures, with a row for each setup.
pub(crate) fn medians(plan: &Plan, results: &Results) -> Table {
    let head = [
        "system",
        "store",
        "compression",
        "populate s",
        "reload s",
        "page s",
        "size MB",
        "resident MB",
        "anonymous MB",
    ];
    let mut table = Table::new(3, head);
    for key in keys(plan) {
        let seconds = |work| {
            let spread = results.of(key, work).spread(|figures| figures.real_s);
            spread.map_or_else(String::new, |s| {
                format!("{:.3} ({:.3}-{:.3})", s.median, s.least, s.most)
            })
        };
        let megabytes = |column| {
            let values = results.column(key, column);
            let decimals = if column == Column::Size { 3 } else { 1 };
            Spread::of(values)
                .map_or_else(String::new, |s| format!("{:.decimals$}", s.median / 1e6))
        };
        let system = if key.system == System::NeoMutt { "neomutt" } else { "barid" };
        let mut row = vec![system.to_owned(), key.choice(), key.method.to_string()];
        row.extend([Work::Populate, Work::Reload, Work::Page].map(seconds));
        row.extend([Column::Size, Column::Resident, Column::Anonymous].map(megabytes));
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hcache::testing;

    #[test]
    fn times_are_means() {
        let (plan, results) = testing::plan_and_results();
        let expected = "                        real   user    sys\n\
                        lmdb  none             0.600  0.300  0.150\n\
                        lmdb  none  (neomutt)  6.000  3.000  1.500\n\
                        lmdb  zstd             0.900  0.450  0.225\n\
                        lmdb  zstd  (neomutt)  9.000  4.500  2.250\n";
        assert_eq!(times(&plan, &results, Work::Populate), expected);
    }

    #[test]
    fn sizes_stand_before_peaks() {
        let (mut plan, results) = testing::plan_and_results();
        plan.cells.truncate(1);
        let expected = "                       size MB  populate MB  reload MB  newest 50 MB\n\
             lmdb  none               0.102          2.0        2.0           2.0\n\
             lmdb  none  (neomutt)    0.205          6.1        6.1\n";
        assert_eq!(sizes(&plan, &results), expected);
    }

    #[test]
    fn what_neomutt_lacks_is_one_line() {
        let (mut plan, results) = testing::plan_and_results();
        assert_eq!(not_compared(&plan), None);
        plan.cells[1].compared_with.clear();
        let expected = "(neomutt has none such: lmdb zstd)";
        assert_eq!(not_compared(&plan).as_deref(), Some(expected));
        assert_eq!(ratios(&plan, &results).text().lines().count(), 2);
    }

    #[test]
    fn the_log_has_ten_columns() {
        let (plan, results) = testing::plan_and_results();
        let expected = "| Real | User | Sys | MaxMem | DBSize | Backend | Builtin Compress | \
                        Generic Compress | PageFaults | FS Outputs |\n\
                        | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n\
                        | 0.600 | 0.300 | 0.150 | 2000 | 100 | lmdb | none | none | 11 | 7 |\n\
                        | 0.900 | 0.450 | 0.225 | 2000 | 100 | lmdb | none | zstd | 11 | 7 |\n";
        assert_eq!(log(&plan, &results, System::Barid, Work::Populate), expected);
    }

    #[test]
    fn ratios_have_their_spread() {
        let (plan, results) = testing::plan_and_results();
        let text = ratios(&plan, &results).text();
        let row: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
        let expected = "lmdb none lmdb none 1/10.0 (1/20.0-1/5.0) 1/10.0 (1/20.0-1/5.0) \
                        1/100 (1/200-1/50.0) 1/2.0 1/3.0 -";
        assert_eq!(row.join(" "), expected);
    }

    #[test]
    fn medians_have_their_spread() {
        let (plan, results) = testing::plan_and_results();
        let text = medians(&plan, &results).markdown();
        let expected = "| barid | lmdb | none | 0.600 (0.400-0.800) | 0.600 (0.400-0.800) | \
                        0.060 (0.040-0.080) | 0.102 | 2.0 |  |";
        assert!(text.contains(expected), "{text}");
    }
}
