//! The one test of all ops: values against an f64 formula, gradients against its finite differences.

use crate::autograd::backward;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Grads, Random, Tensor};

/// An input of a checked op.
pub enum Input {
    /// Random values in [−1, 1), differentiated.
    Values(Shape),
    /// Fixed ids or positions.
    Ids(Vec<u32>),
}

pub fn values(shape: impl Into<Shape>) -> Input {
    Input::Values(shape.into())
}

pub fn ids(ids: &[u32]) -> Input {
    Input::Ids(ids.to_vec())
}

/// Demands that `op` equals `formula` (f64, over the flat inputs) and that its gradients equal the formula's central
/// differences. Tolerance 1e-4 of the largest value: f32 sums of a few hundred terms are good to about 1e-5.
pub fn check(
    inputs: &[Input],
    op: impl Fn(&[Tensor]) -> Result<Tensor>,
    formula: impl Fn(&[Vec<f64>]) -> Vec<f64>,
) {
    let random = Random::new(11);
    let tensors: Vec<Tensor> = inputs
        .iter()
        .enumerate()
        .map(|(input, kind)| match kind {
            Input::Values(shape) => {
                let stream = random.fork(input as u64);
                let values = (0..shape.elements()).map(|i| stream.uniform(i as u64) * 2.0 - 1.0);
                Tensor::leaf(values.collect(), shape.clone()).unwrap()
            }
            Input::Ids(ids) => Tensor::of_u32(ids.clone(), [ids.len()]).unwrap(),
        })
        .collect();
    let mut flat: Vec<Vec<f64>> = tensors
        .iter()
        .zip(inputs)
        .map(|(tensor, kind)| flatten(tensor, kind))
        .collect();

    let y = op(&tensors).unwrap();
    close("y", y.values().unwrap(), &formula(&flat));

    let weights: Vec<f32> = (0..y.shape().elements())
        .map(|i| random.fork(99).uniform(i as u64) - 0.5)
        .collect();
    let mut grads = Grads::default();
    backward(
        y.clone(),
        Tensor::new(weights.clone(), y.shape().clone()).unwrap(),
        &mut grads,
    )
    .unwrap();
    let objective = |flat: &[Vec<f64>]| -> f64 {
        formula(flat)
            .iter()
            .zip(&weights)
            .map(|(y, w)| y * f64::from(*w))
            .sum()
    };
    for input in 0..inputs.len() {
        if !tensors[input].tracked() {
            continue;
        }
        let step = 1e-5;
        let differences: Vec<f64> = (0..flat[input].len())
            .map(|i| {
                let kept = flat[input][i];
                flat[input][i] = kept + step;
                let above = objective(&flat);
                flat[input][i] = kept - step;
                let below = objective(&flat);
                flat[input][i] = kept;
                (above - below) / (2.0 * step)
            })
            .collect();
        let gradient = grads
            .get(&tensors[input])
            .expect("a gradient for every tracked input");
        close(
            &format!("gradient of input {input}"),
            gradient.values().unwrap(),
            &differences,
        );
    }
}

fn flatten(tensor: &Tensor, kind: &Input) -> Vec<f64> {
    match kind {
        Input::Values(_) => tensor.values().unwrap().iter().map(|&x| x.into()).collect(),
        Input::Ids(ids) => ids.iter().map(|&id| id.into()).collect(),
    }
}

fn close(what: &str, ours: &[f32], expected: &[f64]) {
    assert_eq!(ours.len(), expected.len(), "{what}: count");
    let largest = expected.iter().fold(1e-3_f64, |max, x| max.max(x.abs()));
    for (i, (ours, expected)) in ours.iter().zip(expected).enumerate() {
        let error = (f64::from(*ours) - expected).abs() / largest;
        assert!(
            error < 1e-4,
            "{what}[{i}]: {ours} instead of {expected} (relative error {error:.1e})"
        );
    }
}
