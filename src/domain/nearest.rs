//! Which known names somebody may have meant who typed another one.

/// At most so many of the known names, those first that take the fewest edits to become `wanted`.
#[must_use]
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>, limit: usize) -> Vec<&'a str> {
    let mut ranked: Vec<(usize, &str)> = known.into_iter().map(|name| (edits(wanted, name), name)).collect();
    ranked.sort_unstable();
    ranked.into_iter().take(limit).map(|(_, name)| name).collect()
}

/// How many letters have to be added, removed or replaced to make one text of the other.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.chars().enumerate() {
        let mut corner = row[0];
        row[0] = line + 1;
        for (column, other) in to.iter().enumerate() {
            let replaced = corner + usize::from(letter != *other);
            corner = row[column + 1];
            row[column + 1] = replaced.min(corner + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_take_fewer_edits_come_first() {
        let known = ["staging", "prod:dev", "prod", "Prod", "proud", "x"];
        assert_eq!(nearest("prdo", known, 3), ["prod", "Prod", "proud"]);
        assert_eq!(nearest("prod", known, 1), ["prod"]);
        assert_eq!(nearest("", ["ab", "c"], 5), ["c", "ab"]);
        assert_eq!(nearest("é", ["e", "éé"], 5), ["e", "éé"]);
        assert!(nearest("a", [], 5).is_empty());
    }

    #[test]
    fn edits_are_counted_in_letters() {
        for (from, to, count) in
            [("", "", 0), ("a", "", 1), ("", "ab", 2), ("kitten", "sitting", 3), ("é", "e", 1), ("prdo", "prod", 2)]
        {
            assert_eq!((edits(from, to), edits(to, from)), (count, count), "{from} {to}");
        }
    }
}
