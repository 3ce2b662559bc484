//! Root-mean-square norm with a frozen weight.

use crate::error::Result;
use crate::nn::Layout;
use crate::tensor::Tensor;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormSpec {
    pub eps: f32,
    /// What a Hugging Face checkpoint's weight must be added to: 1 for Gemma, 0 elsewhere.
    pub offset: f32,
}

pub struct RmsNorm {
    weight: Tensor,
    eps: f32,
}

impl RmsNorm {
    /// `weight` [width] as stored in a file of the given layout.
    pub fn new(weight: Tensor, spec: NormSpec, layout: Layout) -> Result<RmsNorm> {
        let weight = match layout {
            Layout::HuggingFace if spec.offset != 0.0 => {
                let shifted = weight.values()?.iter().map(|w| w + spec.offset).collect();
                Tensor::new(shifted, weight.shape().clone())?
            }
            _ => weight,
        };
        Ok(RmsNorm {
            weight,
            eps: spec.eps,
        })
    }

    /// [.., width] to [.., width].
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.rms_norm(&self.weight, self.eps)
    }
}
