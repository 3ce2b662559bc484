//! Losses and gradients by slices against the formula and against the parts one by one.

use super::*;
use crate::backend::Bytes;
use crate::ops::check::{check, close, elements, flat, gradients, ids, random, scaled, weight};
use crate::quant::Format;

/// log Σ exp(z) − z[target] with z = W·x, capped.
fn formula(w: &[f64], width: usize, cap: Option<f32>, x: &[Vec<f64>]) -> Vec<f64> {
    let loss = |(x, target): (&[f64], &f64)| {
        if *target as u32 == IGNORED {
            return 0.0;
        }
        let logit = |w: &[f64]| {
            let z = w.iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
            cap.map_or(z, |cap| f64::from(cap) * (z / f64::from(cap)).tanh())
        };
        let z: Vec<f64> = w.chunks(width).map(logit).collect();
        let max = z.iter().copied().fold(f64::MIN, f64::max);
        max + z.iter().map(|z| (z - max).exp()).sum::<f64>().ln() - z[*target as usize]
    };
    x[0].chunks(width).zip(&x[1]).map(loss).collect()
}

fn follows(format: Format, vocab: usize, width: usize, targets: &[u32]) {
    let w = weight(format, vocab, width);
    let elements = elements(&w);
    for cap in [None, Some(3.0)] {
        check(
            &[scaled([targets.len(), width], 1.5), ids(targets)],
            |x| x[0].linear_cross_entropy(&w, &x[1], cap, None),
            |x| formula(&elements, width, cap, x),
        );
    }
}

#[test]
fn losses_and_their_gradients_follow_the_formula() {
    follows(Format::F32, 1, 1, &[0]);
    follows(Format::F32, 7, 33, &[6, IGNORED, 0]);
    follows(Format::F16, 257, 7, &[IGNORED, 256, 3, 3, 0, IGNORED, 99]);
    follows(Format::Q4_1, 33, 64, &[32, 1]);
    follows(Format::Q6K, 7, 256, &[IGNORED]);
}

#[test]
fn several_panels_follow_the_formula() {
    // Panels of 8192 rows; targets in the first, the second and the third.
    follows(Format::Q8_0, 16_391, 32, &[16_390, 9_000]);
    follows(Format::F32, 16_391, 32, &[8_191, IGNORED]);
}

#[test]
fn the_parts_one_by_one_give_the_same() {
    let w = weight(Format::Q5_0, 257, 64);
    let x = random([7, 64]).scale(2.0).unwrap().tracked_leaf();
    let targets = Tensor::of_u32(vec![0, 256, IGNORED, 3, 4, 200, 6], [7]).unwrap();
    for cap in [None, Some(5.0)] {
        let logits = x.linear(&w).unwrap();
        let capped = cap.map_or(Ok(logits.clone()), |cap| logits.soft_cap(cap));
        let parts = capped.unwrap().cross_entropy(&targets).unwrap();
        let whole = x.linear_cross_entropy(&w, &targets, cap, None).unwrap();
        close("losses", whole.values().unwrap(), &flat(&parts));
        let dy = [0.5, 1.0, 2.0, -1.0, 0.25, 1.0, 3.0];
        let (whole, parts) = (gradients(&whole, &dy), gradients(&parts, &dy));
        let parts = flat(parts.get(&x).unwrap());
        close("dx", whole.get(&x).unwrap().values().unwrap(), &parts);
    }
}

#[test]
fn slices_of_any_size_give_the_same() {
    let w = weight(Format::Q4_0, 257, 64);
    let x = random([7, 64]).tracked_leaf();
    let targets = Tensor::of_u32(vec![0, 256, IGNORED, 3, 4, 200, 6], [7]).unwrap();
    let computed = |slice| {
        let y = x
            .linear_cross_entropy(&w, &targets, Some(5.0), slice)
            .unwrap();
        let grads = gradients(&y, &[0.5, 1.0, 2.0, -1.0, 0.25, 1.0, 3.0]);
        [flat(&y), flat(grads.get(&x).unwrap())]
    };
    let whole = computed(None);
    for slice in [1, 7, 256, 257, 1000] {
        for (part, whole) in computed(Some(slice)).iter().zip(&whole) {
            let part: Vec<f32> = part.iter().map(|&value| value as f32).collect();
            close("slices", &part, whole);
        }
    }
}

#[test]
fn huge_logits_stay_finite_while_the_maximum_grows() {
    // The largest logit of row 0 is in the last of three panels, that of row 1 in the first.
    let (vocab, width) = (20_000, 32);
    let mut values = vec![0.0; vocab * width];
    for row in 0..vocab {
        values[row * width] = row as f32 - 1e4;
    }
    let w = Weight::new(Format::F32, [vocab, width].into(), Bytes::from_f32(values)).unwrap();
    let mut values = vec![0.0; 2 * width];
    (values[0], values[width]) = (1.0, -1.0);
    let x = Tensor::leaf(values, [2, width]).unwrap();
    let targets = [19_999, 19_999];
    let y = x.linear_cross_entropy(
        &w,
        &Tensor::of_u32(targets.to_vec(), [2]).unwrap(),
        None,
        None,
    );
    let y = y.unwrap();
    let x64 = [flat(&x), targets.map(f64::from).to_vec()];
    close(
        "losses",
        y.values().unwrap(),
        &formula(&elements(&w), width, None, &x64),
    );
    let grads = gradients(&y, &[1.0, 1.0]);
    let dx = grads.get(&x).unwrap().values().unwrap();
    assert!(dx.iter().all(|dx| dx.is_finite()), "{dx:?}");
    // dx = Σ p·w − w[target]; p falls by e from row to row, so Σ p·w is 1/(e − 1) from the largest.
    let below = 1.0 / (1f64.exp() - 1.0);
    assert!((f64::from(dx[0]) + below).abs() < 1e-2, "{}", dx[0]);
    assert!(
        (f64::from(dx[width]) + 19_999.0 - below).abs() < 1e-2,
        "{}",
        dx[width]
    );
}

#[test]
fn inputs_that_do_not_belong_together_are_refused() {
    let w = weight(Format::F32, 7, 3);
    let targets = |ids: &[u32]| Tensor::of_u32(ids.to_vec(), [ids.len()]).unwrap();
    assert!(
        random([2, 4])
            .linear_cross_entropy(&w, &targets(&[0, 0]), None, None)
            .is_err()
    );
    assert!(
        random([2, 3])
            .linear_cross_entropy(&w, &targets(&[0]), None, None)
            .is_err()
    );
    assert!(
        random([2, 3])
            .linear_cross_entropy(&w, &targets(&[0, 7]), None, None)
            .is_err()
    );
    let none = random([0, 3]).linear_cross_entropy(&w, &targets(&[]), None, None);
    assert_eq!(none.unwrap().shape()[..], [0]);
}
