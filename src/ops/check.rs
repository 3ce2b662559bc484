//! The one test of all ops: values against an f64 formula, gradients against its finite differences.

use crate::autograd::backward;
use crate::backend::Bytes;
use crate::error::Result;
use crate::quant::{Format, Weight};
use crate::shape::Shape;
use crate::tensor::{Grads, Random, Tensor};

/// An input of a checked op.
pub enum Input {
    /// Random values in [−scale, scale), differentiated.
    Values(Shape, f32),
    /// Random values in [−1, 1) that are not differentiated.
    Constants(Shape),
    /// Given ids or positions.
    Ids(Vec<u32>),
}

/// Differentiated values in [−1, 1).
pub fn values(shape: impl Into<Shape>) -> Input {
    scaled(shape, 1.0)
}

/// Differentiated values in [−scale, scale), for ops that bend only far from zero.
pub fn scaled(shape: impl Into<Shape>, scale: f32) -> Input {
    Input::Values(shape.into(), scale)
}

pub fn constants(shape: impl Into<Shape>) -> Input {
    Input::Constants(shape.into())
}

pub fn ids(ids: &[u32]) -> Input {
    Input::Ids(ids.to_vec())
}

impl Input {
    fn tensor(&self, random: Random) -> Tensor {
        let draw = |shape: &Shape, scale: f32| {
            let values = (0..shape.elements() as u64).map(|i| random.uniform(i) * 2.0 - 1.0);
            Tensor::new(values.map(|x| x * scale).collect(), shape.clone()).unwrap()
        };
        match self {
            Input::Values(shape, scale) => draw(shape, *scale).tracked_leaf(),
            Input::Constants(shape) => draw(shape, 1.0),
            Input::Ids(ids) => Tensor::of_u32(ids.clone(), [ids.len()]).unwrap(),
        }
    }

    fn flatten(&self, tensor: &Tensor) -> Vec<f64> {
        match self {
            Input::Ids(ids) => ids.iter().map(|&id| id.into()).collect(),
            _ => flat(tensor),
        }
    }
}

/// Untracked random values in [−1, 1).
pub fn random(shape: impl Into<Shape>) -> Tensor {
    constants(shape).tensor(Random::new(13))
}

/// The values of a tensor, for formulas.
pub fn flat(tensor: &Tensor) -> Vec<f64> {
    tensor.values().unwrap().iter().map(|&x| x.into()).collect()
}

/// A frozen [rows, columns] of random blocks: random bytes, drawn again until the largest value is between 0.1 and 2.
pub fn weight(format: Format, rows: usize, columns: usize) -> Weight {
    let random = Random::new(12).named(format.name());
    let mut draws = 0..;
    let (mut packed, mut values) = (Vec::new(), vec![0.0; format.block_elements()]);
    for _ in 0..rows * columns / format.block_elements() {
        let block = loop {
            let stream = random.fork(draws.next().unwrap());
            let bytes = (0..format.block_bytes()).map(|i| stream.bits(i as u64) as u8);
            let block: Vec<u8> = bytes.collect();
            format.unpack(&block, &mut values).unwrap();
            let largest = values.iter().fold(0.0, |max: f32, v| max.max(v.abs()));
            if values.iter().all(|v| v.is_finite()) && (0.1..2.0).contains(&largest) {
                break block;
            }
        };
        packed.extend(block);
    }
    Weight::new(format, [rows, columns].into(), Bytes::copy_of(&packed)).unwrap()
}

/// The elements of a weight, likewise.
pub fn elements(weight: &Weight) -> Vec<f64> {
    weight
        .to_f32()
        .unwrap()
        .into_iter()
        .map(f64::from)
        .collect()
}

/// Demands that `op` equals `formula` (f64, over the flat inputs) and that its gradients equal the formula's central
/// differences, whether all inputs are tracked or one alone. Tolerance 1e-4 of the largest value: f32 sums of a few
/// hundred terms are good to about 1e-5.
pub fn check(
    inputs: &[Input],
    op: impl Fn(&[Tensor]) -> Result<Tensor>,
    formula: impl Fn(&[Vec<f64>]) -> Vec<f64>,
) {
    let random = Random::new(11);
    let draw = |(i, input): (usize, &Input)| input.tensor(random.fork(i as u64));
    let tensors: Vec<Tensor> = inputs.iter().enumerate().map(draw).collect();
    let flatten = |(input, tensor): (&Input, &Tensor)| input.flatten(tensor);
    let mut flat: Vec<Vec<f64>> = inputs.iter().zip(&tensors).map(flatten).collect();

    let y = op(&tensors).unwrap();
    close("y", y.values().unwrap(), &formula(&flat));

    let stream = random.fork(99);
    let dy: Vec<f32> = (0..y.shape().elements() as u64)
        .map(|i| stream.uniform(i) - 0.5)
        .collect();
    let grads = gradients(&y, &dy);
    let objective = |flat: &[Vec<f64>]| -> f64 {
        let y = formula(flat);
        y.iter().zip(&dy).map(|(y, dy)| y * f64::from(*dy)).sum()
    };
    for input in 0..inputs.len() {
        if !tensors[input].tracked() {
            assert!(
                grads.get(&tensors[input]).is_none(),
                "gradient of untracked input {input}"
            );
            continue;
        }
        let step = 1e-5;
        let difference = |i: usize| {
            let kept = flat[input][i];
            flat[input][i] = kept + step;
            let above = objective(&flat);
            flat[input][i] = kept - step;
            let below = objective(&flat);
            flat[input][i] = kept;
            (above - below) / (2.0 * step)
        };
        let differences: Vec<f64> = (0..tensors[input].shape().elements())
            .map(difference)
            .collect();
        let gradient = grads
            .get(&tensors[input])
            .expect("a gradient for every tracked input");
        close(
            &format!("gradient of input {input}"),
            gradient.values().unwrap(),
            &differences,
        );

        let mut alone: Vec<Tensor> = tensors.iter().map(Tensor::detach).collect();
        alone[input] = tensors[input].clone();
        let grads = gradients(&op(&alone).unwrap(), &dy);
        let same =
            grads.get(&tensors[input]).unwrap().values().unwrap() == gradient.values().unwrap();
        assert!(
            same,
            "input {input} has another gradient when it alone is tracked"
        );
    }
}

/// The gradients of the leaves below `y` given `dy`.
pub fn gradients(y: &Tensor, dy: &[f32]) -> Grads {
    let mut grads = Grads::default();
    let dy = Tensor::new(dy.to_vec(), y.shape().clone()).unwrap();
    backward(y.clone(), dy, &mut grads).unwrap();
    grads
}

/// Demands equality within 1e-4 of the largest expected value.
pub fn close(what: &str, ours: &[f32], expected: &[f64]) {
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
