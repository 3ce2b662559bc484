//! What a new adapter starts from: PEFT's defaults, which change nothing of the model.

use crate::error::Result;
use crate::lora::merge::lengths;
use crate::lora::{LayerKind, LoraConfig, Matrix, Pair, Site};
use crate::quant::Weight;
use crate::tensor::Random;

/// Linear layers: A uniform in ±1/√in (Kaiming-uniform with a = √5), B zero. Embeddings: A zero, B standard normal.
/// DoRA's magnitude: the lengths that the outputs of `weight` have.
pub(super) fn initial(config: &LoraConfig, site: &Site, weight: &Weight) -> Result<Pair> {
    let Site {
        path,
        outputs,
        inputs,
    } = site;
    let rank = config.rank_of(path);
    let random = Random::new(config.seed).named(path);
    let kind = LayerKind::of(path);
    let bound = 1.0 / (*inputs as f32).sqrt();
    let uniform = |i: usize| (random.uniform(i as u64) * 2.0 - 1.0) * bound;
    let (a, b): (Vec<f32>, Vec<f32>) = match kind {
        LayerKind::Linear => (
            (0..rank * inputs).map(uniform).collect(),
            vec![0.0; outputs * rank],
        ),
        LayerKind::Embedding => (
            vec![0.0; rank * inputs],
            (0..outputs * rank)
                .map(|i| normal(random, i as u64))
                .collect(),
        ),
    };
    let matrix = |rows, columns, values| Matrix {
        rows,
        columns,
        values,
    };
    let mut pair = Pair::new(matrix(rank, *inputs, a), matrix(*outputs, rank, b));
    if config.dora {
        pair.magnitude = Some(lengths(weight, kind, None)?);
    }
    Ok(pair)
}

/// A standard normal value from two uniform ones: Box and Muller 1958.
fn normal(random: Random, index: u64) -> f32 {
    let (u, v) = (random.uniform(2 * index), random.uniform(2 * index + 1));
    let radius = (-2.0 * f64::from(1.0 - u).ln()).sqrt();
    (radius * (std::f64::consts::TAU * f64::from(v)).cos()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::weight;
    use crate::quant::Format;

    #[test]
    fn a_new_embedding_adapter_adds_nothing_and_its_b_is_standard_normal() {
        let (vocab, width) = (64, 512);
        let site = Site {
            path: "model.embed_tokens".into(),
            outputs: width,
            inputs: vocab,
        };
        let config = LoraConfig {
            dora: true,
            ..LoraConfig::default()
        };
        let table = weight(Format::F32, vocab, width);
        let pair = initial(&config, &site, &table).unwrap();
        assert!(pair.a.values.iter().all(|a| *a == 0.0));
        assert_eq!((pair.a.columns, pair.b.rows), (vocab, width));
        let count = pair.b.values.len() as f32;
        let mean = pair.b.values.iter().sum::<f32>() / count;
        let variance = pair.b.values.iter().map(|b| b * b).sum::<f32>() / count;
        // 4096 values: standard deviations of 0.016 and 0.022.
        assert!(
            mean.abs() < 0.06 && (variance - 1.0).abs() < 0.09,
            "{mean} {variance}"
        );
        let column = table
            .to_f32()
            .unwrap()
            .iter()
            .step_by(width)
            .map(|x| x * x)
            .sum::<f32>();
        assert!((pair.magnitude.unwrap()[0] - column.sqrt()).abs() < 1e-4);
    }
}
