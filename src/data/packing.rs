//! Several samples in one row: best fit decreasing, as in the theory of bin packing (Johnson 1973): at most 11/9 of the
//! fewest possible rows.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Numbers of the samples of each row, no row longer than `most` unless one sample alone is.
///
/// Depends on `lengths` only, so that every epoch has as many rows. Where no token is padding, packing saves no work on its
/// own: it makes rows of about `most` tokens, so that a batch of short samples is as long as one of long samples.
pub fn pack(lengths: &[usize], most: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&number| Reverse(lengths[number]));
    let mut rows: Vec<Vec<usize>> = Vec::new();
    // Rows by the room they still have.
    let mut room: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for number in order {
        let length = lengths[number];
        let fitting = room.range_mut(length..).next();
        let (row, left) = match fitting.and_then(|(&left, rows)| Some((rows.pop()?, left))) {
            Some((row, left)) => {
                if room.get(&left).is_some_and(Vec::is_empty) {
                    room.remove(&left);
                }
                (row, left)
            }
            None => {
                rows.push(Vec::new());
                (rows.len() - 1, most.max(length))
            }
        };
        rows[row].push(number);
        room.entry(left - length).or_default().push(row);
    }
    // Within a row in the order of the data.
    rows.iter_mut().for_each(|row| row.sort_unstable());
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_filled_by_the_best_fit() {
        // By hand: 6 opens a row, 5 another, 4 fills the first, 3 and 2 fill the second, 1 is left.
        assert_eq!(
            pack(&[4, 6, 1, 3, 5, 2], 10),
            [vec![0, 1], vec![3, 4, 5], vec![2]]
        );
        assert_eq!(pack(&[20, 3], 10), [[0], [1]]);
        assert!(pack(&[], 10).is_empty());
    }

    #[test]
    fn every_sample_is_in_one_row_and_few_rows_are_needed() {
        let lengths: Vec<usize> = (0..3000).map(|i| 2 + (i * i * 31 + 7 * i) % 200).collect();
        let rows = pack(&lengths, 512);
        let mut all = rows.concat();
        all.sort_unstable();
        assert_eq!(all, (0..3000).collect::<Vec<_>>());
        let total: usize = lengths.iter().sum();
        assert!(
            rows.iter()
                .all(|row| row.iter().map(|&n| lengths[n]).sum::<usize>() <= 512)
        );
        assert!(
            rows.len() <= total.div_ceil(512) * 102 / 100,
            "{}",
            rows.len()
        );
    }
}
