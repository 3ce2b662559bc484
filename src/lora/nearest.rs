//! The name that was probably meant.

/// The candidate nearest to `word`; none when nothing is near. Letters count alike in either case.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (word.chars().count() / 3).max(1);
    let with_distance = candidates
        .into_iter()
        .map(|name| (distance(word, name), name));
    let near = with_distance.filter(|(distance, _)| *distance <= most);
    near.min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Letters to insert, delete or change to make `a` into `b`: Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let change = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_worked_by_hand() {
        for (a, b, expected) in [
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("q_proj", "Q_Proj", 0),
            ("ab", "ba", 2),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn only_near_names_are_offered() {
        let names = ["q_proj", "k_proj", "gate_proj"];
        assert_eq!(nearest("qproj", names), Some("q_proj"));
        assert_eq!(nearest("gate_porj", names), Some("gate_proj"));
        assert_eq!(nearest("query", names), None);
    }
}
