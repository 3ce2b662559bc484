//! The gated feed-forward layer: down(act(gate(x)) · up(x)).

use crate::error::Result;
use crate::nn::{Linear, Loader};
use crate::ops::Activation;
use crate::tensor::{Ctx, Tensor};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MlpSpec {
    pub hidden: usize,
    pub activation: Activation,
    /// Gate and up are one projection, gate first (Phi-3).
    pub fused: bool,
}

pub struct Mlp {
    input: Input,
    down: Linear,
    spec: MlpSpec,
}

enum Input {
    Split { gate: Linear, up: Linear },
    Fused(Linear),
}

impl Mlp {
    /// `width`: channels of the stream.
    pub fn load(loader: &Loader, width: usize, spec: MlpSpec) -> Result<Mlp> {
        let input = match spec.fused {
            true => Input::Fused(loader.linear("gate_up_proj", 2 * spec.hidden, width)?),
            false => Input::Split {
                gate: loader.linear("gate_proj", spec.hidden, width)?,
                up: loader.linear("up_proj", spec.hidden, width)?,
            },
        };
        let down = loader.linear("down_proj", width, spec.hidden)?;
        Ok(Mlp { input, down, spec })
    }

    /// [time, width] to [time, width].
    pub fn forward(&self, x: &Tensor, ctx: &Ctx) -> Result<Tensor> {
        let hidden = self.spec.hidden;
        let (gate, up) = match &self.input {
            Input::Split { gate, up } => (gate.forward(x, ctx)?, up.forward(x, ctx)?),
            Input::Fused(both) => {
                let both = both.forward(x, ctx)?;
                (both.narrow(0, hidden)?, both.narrow(hidden, hidden)?)
            }
        };
        self.down
            .forward(&gate.gated(&up, self.spec.activation)?, ctx)
    }
}
