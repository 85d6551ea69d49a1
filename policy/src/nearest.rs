//! The known name that somebody probably meant.

/// The name nearest to `wrong` by edit distance, if one is near enough to be a slip of the hand.
///
/// Near enough is a third of the longer one's letters: beyond that, a suggestion misleads more often than it helps.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong: Vec<char> = wrong.chars().take(LENGTH_MAX).collect();
    known
        .into_iter()
        .map(|name| (distance(&wrong, name), name))
        .filter(|(distance, name)| distance * 3 <= wrong.len().max(name.len()))
        .min()
        .map(|(_, name)| name)
}

/// The cost of a comparison is the product of the two lengths, and the wrong name may come from anybody.
const LENGTH_MAX: usize = 256;

/// Insertions, deletions, replacements and swaps of neighbours that make `name` of `wrong`; upper case, `-`, `_` and `.`
/// do not matter.
fn distance(wrong: &[char], name: &str) -> usize {
    let name: Vec<char> = name.chars().take(LENGTH_MAX).collect();
    // Of the matrix only the last two rows are needed: a row per letter of `name`, a column per letter of `wrong`.
    let mut above: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=wrong.len()).collect();
    for (i, want) in name.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, have) in wrong.iter().enumerate() {
            let replaced = row[j] + usize::from(!same(*have, *want));
            let mut best = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && same(*have, name[i - 1]) && same(wrong[j - 1], *want) {
                best = best.min(above[j - 1] + 1);
            }
            next.push(best);
        }
        above = std::mem::replace(&mut row, next);
    }
    row[wrong.len()]
}

fn same(a: char, b: char) -> bool {
    let separator = |c| matches!(c, '-' | '_' | '.');
    a.eq_ignore_ascii_case(&b) || (separator(a) && separator(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 4] = ["grpc-addr", "http-addr", "data-dir", "drain-timeout"];

    #[test]
    fn a_slip_of_the_hand_finds_its_name() {
        for (wrong, name) in [
            ("grpc_addr", "grpc-addr"),
            ("GRPC-ADDR", "grpc-addr"),
            ("grcp-addr", "grpc-addr"),
            ("htp-addr", "http-addr"),
            ("data-dirs", "data-dir"),
            ("draintimeout", "drain-timeout"),
            ("htpt_adrd", "http-addr"),
        ] {
            assert_eq!(nearest(wrong, KNOWN), Some(name), "{wrong}");
        }
    }

    #[test]
    fn something_else_finds_nothing() {
        for wrong in ["", "colour", "x", &"long".repeat(10_000)] {
            assert_eq!(nearest(wrong, KNOWN), None);
        }
    }

    #[test]
    fn among_equals_the_first_by_name_whatever_their_order() {
        assert_eq!(nearest("abX", ["abc", "abb"]), Some("abb"));
        assert_eq!(nearest("abX", ["abb", "abc"]), Some("abb"));
    }
}
