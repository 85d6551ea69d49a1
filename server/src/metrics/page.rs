//! A page put together from parts, each rendered by a recorder of its own: the lines of one metric must follow one
//! another, and thousands of breakers in one recorder would take ten times the memory of the page.

use std::collections::BTreeMap;

/// Series by the head of their metric (its help and type), in order.
#[derive(Debug, Default)]
pub(super) struct Page(BTreeMap<String, String>);

impl Page {
    /// Adds a rendered part.
    pub(super) fn add(&mut self, part: &str) {
        // Metrics are set apart by blank lines; line breaks in labels are escaped.
        for metric in part.split("\n\n") {
            let (head, mut series): (Vec<&str>, Vec<&str>) =
                metric.lines().partition(|line| line.starts_with('#'));
            series.sort_unstable();
            let all = self.0.entry(head.join("\n")).or_default();
            for line in series {
                all.push_str(line);
                all.push('\n');
            }
        }
    }

    /// The whole.
    pub(super) fn into_text(self) -> String {
        let mut text = String::new();
        for (head, series) in self.0.into_iter().filter(|(_, series)| !series.is_empty()) {
            text.push_str(&head);
            text.push('\n');
            text.push_str(&series);
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_by_metric_and_sorted() {
        let mut page = Page::default();
        page.add(
            "# HELP b B.\n# TYPE b gauge\nb{x=\"2\"} 1\nb{x=\"1\"} 1\n\n# TYPE a counter\na{x=\"#\"} 1\n\n",
        );
        page.add("# HELP b B.\n# TYPE b gauge\nb{x=\"3\"} 1\n\n");
        let expected = "# HELP b B.\n# TYPE b gauge\nb{x=\"1\"} 1\nb{x=\"2\"} 1\nb{x=\"3\"} 1\n\n\
            # TYPE a counter\na{x=\"#\"} 1\n\n";
        assert_eq!(page.into_text(), expected);
    }
}
