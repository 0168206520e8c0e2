//! Prometheus's text format, version 0.0.4: what every scraper and promtool reads.

use std::fmt::{Display, Write};

use quorate_front::{BOUNDS_US, Histogram};

pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Families of metrics, one behind the other. Each is named once, with its help and its type.
#[derive(Debug, Default)]
pub(crate) struct Text(pub(crate) String);

impl Text {
    pub(crate) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.begin(name, help, "counter");
        self.sample(name, &[], value);
    }

    /// A counter for each value of a label.
    pub(crate) fn counters<V: AsRef<str>>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (V, u64)>,
    ) {
        self.begin(name, help, "counter");
        values.into_iter().for_each(|(word, value)| self.sample(name, &[(label, word.as_ref())], value));
    }

    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.begin(name, help, "gauge");
        self.sample(name, &[], value);
    }

    /// A gauge for each value of a label.
    pub(crate) fn gauges<V: AsRef<str>>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (V, u64)>,
    ) {
        self.begin(name, help, "gauge");
        values.into_iter().for_each(|(word, value)| self.sample(name, &[(label, word.as_ref())], value));
    }

    /// A gauge that is always 1 and tells by its labels.
    pub(crate) fn info(&mut self, name: &str, help: &str, labels: &[(&str, &str)]) {
        self.begin(name, help, "gauge");
        self.sample(name, labels, 1);
    }

    pub(crate) fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.begin(name, help, "histogram");
        self.classes(name, &[], histogram);
    }

    /// A histogram for each value of a label.
    pub(crate) fn histograms<'h>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'h str, &'h Histogram)>,
    ) {
        self.begin(name, help, "histogram");
        values.into_iter().for_each(|(word, histogram)| self.classes(name, &[(label, word)], histogram));
    }

    fn classes(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram) {
        let bounds = BOUNDS_US.iter().map(|&bound_us| (f64::from(bound_us) / 1e6).to_string());
        let bounds = bounds.chain(["+Inf".to_owned()]);
        let bucket = format!("{name}_bucket");
        let mut count = 0;
        for (bound, in_class) in bounds.zip(histogram.counts) {
            count += in_class;
            self.sample(&bucket, &[labels, &[("le", &bound)]].concat(), count);
        }
        self.sample(&format!("{name}_sum"), labels, histogram.sum_us as f64 / 1e6);
        self.sample(&format!("{name}_count"), labels, count);
    }

    fn begin(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(self.0, "# HELP {name} {}", help.replace('\\', "\\\\").replace('\n', "\\n"));
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (place, (label, word)) in labels.iter().enumerate() {
            let word = word.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{word}\"", if place == 0 { '{' } else { ',' });
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_classes_add_up() {
        let mut text = Text::default();
        text.info("a_info", "Two\nlines.", &[("x", "q\"b\\n\n"), ("y", "")]);
        assert_eq!(text.0, "# HELP a_info Two\\nlines.\n# TYPE a_info gauge\na_info{x=\"q\\\"b\\\\n\\n\",y=\"\"} 1\n");
        let mut histogram = Histogram::default();
        [40, 70, 20_000_000].into_iter().for_each(|duration_us| histogram.add(duration_us));
        let mut text = Text::default();
        text.histogram("b_seconds", "B.", &histogram);
        let lines: Vec<&str> = text.0.lines().collect();
        assert_eq!(lines[2..4], ["b_seconds_bucket{le=\"0.00005\"} 1", "b_seconds_bucket{le=\"0.0001\"} 2"]);
        assert_eq!(
            lines[lines.len() - 4..],
            [
                "b_seconds_bucket{le=\"10\"} 2",
                "b_seconds_bucket{le=\"+Inf\"} 3",
                "b_seconds_sum 20.00011",
                "b_seconds_count 3"
            ]
        );
    }
}
