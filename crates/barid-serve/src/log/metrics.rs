//! Figures of the server in the text form of Prometheus (exposition format 0.0.4).

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Declares the figures: a field, its kind, and its meaning for the person who reads it.
macro_rules! metrics {
    ($($field:ident, $kind:literal, $name:literal, $help:literal;)*) => {
        /// Figures of the server. Counters grow; gauges are what is now.
        #[derive(Debug, Default)]
        pub struct Metrics {
            $(#[doc = $help] pub $field: AtomicU64,)*
        }

        /// The values of [`Metrics`] at one time, or of one process; those of several are added.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct MetricsSnapshot {
            $(#[doc = $help] pub $field: u64,)*
        }

        impl Metrics {
            /// Returns the values now.
            #[must_use]
            pub fn snapshot(&self) -> MetricsSnapshot {
                MetricsSnapshot { $($field: self.$field.load(Ordering::Relaxed),)* }
            }
        }

        impl MetricsSnapshot {
            /// Adds the values of another process.
            pub fn add(&mut self, other: &Self) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
            }

            /// Returns the figures in the text form of Prometheus.
            #[must_use]
            pub fn text(&self) -> String {
                let mut text = String::new();
                $(
                    let _ = writeln!(text, "# HELP {} {}", $name, $help);
                    let _ = writeln!(text, "# TYPE {} {}", $name, $kind);
                    let _ = writeln!(text, "{} {}", $name, self.$field);
                )*
                text
            }
        }
    };
}

metrics! {
    connections, "gauge", "barid_connections", "Connections that are open.";
    connections_all, "counter", "barid_connections_total", "Connections that were accepted.";
    connections_refused, "counter", "barid_connections_refused_total",
        "Connections that were refused because of a limit.";
    sessions, "gauge", "barid_sessions", "Sessions of users who are logged in.";
    logins, "counter", "barid_logins_total", "Logins that succeeded.";
    logins_failed, "counter", "barid_logins_failed_total", "Logins that failed.";
    workers, "gauge", "barid_workers", "Processes of users.";
    workers_failed, "counter", "barid_workers_failed_total",
        "Processes of users that ended by a crash.";
    commands, "counter", "barid_commands_total", "Commands that were answered.";
    bytes_in, "counter", "barid_bytes_received_total", "Bytes that clients sent.";
    bytes_out, "counter", "barid_bytes_sent_total", "Bytes that were sent to clients.";
    delivered, "counter", "barid_delivered_total", "Deliveries that were stored.";
    delivered_spam, "counter", "barid_delivered_spam_total",
        "Messages that were delivered as spam.";
    duplicates, "counter", "barid_duplicates_total",
        "Messages that were dropped because they had been delivered before.";
    deliveries_deferred, "counter", "barid_deliveries_deferred_total",
        "Deliveries that failed and may be tried again.";
    deliveries_refused, "counter", "barid_deliveries_refused_total",
        "Deliveries that were refused for good.";
}

impl Metrics {
    /// Adds one to a counter or gauge.
    pub fn up(figure: &AtomicU64) {
        figure.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one from a gauge.
    pub fn down(figure: &AtomicU64) {
        figure.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_in_the_form_of_prometheus() {
        let metrics = Metrics::default();
        Metrics::up(&metrics.logins);
        Metrics::up(&metrics.connections);
        Metrics::up(&metrics.connections);
        Metrics::down(&metrics.connections);
        let mut all = metrics.snapshot();
        all.add(&MetricsSnapshot { logins: 2, ..MetricsSnapshot::default() });
        let text = all.text();
        let expected = "# HELP barid_logins_total Logins that succeeded.\n\
                        # TYPE barid_logins_total counter\nbarid_logins_total 3\n";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("\nbarid_connections 1\n"), "{text}");
        let mut samples = 0;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.split_once(' ').unwrap();
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
            assert!(value.parse::<u64>().is_ok());
            let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
            assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name}");
            samples += 1;
        }
        assert_eq!(samples, 16);
        assert!(text.ends_with('\n'));
    }
}
