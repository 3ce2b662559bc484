//! The trainable parts of every targeted layer, their moments, and their update.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

use crate::backend::cpu::vectorise;
use crate::bail;
use crate::error::Result;
use crate::lora::initial::initial;
use crate::lora::merge::{Product, inverse, lengths};
use crate::lora::optimizer::Moments;
use crate::lora::{
    GradStats, LayerKind, LoraConfig, Matrix, Optimizer, Pair, Part, Site, layer_of,
};
use crate::quant::Weight;
use crate::shape::Shape;
use crate::tensor::{Grads, Tensor};

/// Owns every trainable parameter. Layers ask it for theirs at each pass.
pub struct Adapter {
    config: LoraConfig,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// By path of the layer; the order is that of updates and files.
    pub layers: BTreeMap<String, Layer>,
    /// Every layer that was offered, targeted or not.
    offered: Vec<Site>,
    /// Pairs to start from, until their layer is offered.
    initial: BTreeMap<String, Pair>,
    pub updates: u64,
}

/// The parameters of one layer.
pub(super) struct Layer {
    pub parameters: BTreeMap<Part, Parameter>,
    /// 1 / ‖W + s·B·A‖ for each output: DoRA's, since the last update.
    inverse_lengths: Option<Tensor>,
}

impl Layer {
    /// Drops what was computed from the parameters.
    pub fn changed(&mut self) {
        self.inverse_lengths = None;
    }
}

pub(super) struct Parameter {
    pub value: Tensor,
    pub moments: Moments,
}

/// What a layer adds: s·B·A, and DoRA's lengths where the adapter has them.
pub struct Factors {
    /// [rank, in]
    pub a: Tensor,
    /// [out, rank]
    pub b: Tensor,
    pub scale: f32,
    pub dora: Option<DoraLengths>,
}

/// W + s·B·A is multiplied by magnitude · inverse_lengths, output by output.
pub struct DoraLengths {
    /// [out], trained
    pub magnitude: Tensor,
    /// 1 / ‖W + s·B·A‖, [out], a constant in training
    pub inverse_lengths: Tensor,
}

impl Adapter {
    /// A new adapter, which changes nothing yet: PEFT's initial values, drawn by the seed.
    pub fn new(config: LoraConfig) -> Arc<Adapter> {
        Self::continuing(config, BTreeMap::new())
    }

    /// An adapter that starts from `pairs` instead, by path of the layer.
    pub fn continuing(config: LoraConfig, pairs: BTreeMap<String, Pair>) -> Arc<Adapter> {
        let state = State {
            initial: pairs,
            ..State::default()
        };
        Arc::new(Adapter {
            config,
            state: Mutex::new(state),
        })
    }

    pub fn config(&self) -> &LoraConfig {
        &self.config
    }

    /// Offers the layer `path` with its frozen weight while the model loads; true when it gets an adapter.
    pub fn attach(&self, path: &str, weight: &Weight) -> Result<bool> {
        let kind = LayerKind::of(path);
        let (outputs, inputs) = kind.sides(weight.shape().rows(), weight.shape().last());
        let site = Site {
            path: path.to_owned(),
            outputs,
            inputs,
        };
        let mut state = self.lock();
        state.offered.push(site.clone());
        let given = state.initial.remove(path);
        if given.is_none() && !self.config.targets_path(path) {
            return Ok(false);
        }
        if state.layers.contains_key(path) {
            return Ok(true);
        }
        self.config.check_rank(&site)?;
        let pair = match given {
            Some(pair) => self.fitting(pair, &site)?,
            None => initial(&self.config, &site, weight)?,
        };
        let mut parameters = BTreeMap::new();
        let mut insert = |part, values, shape: Shape| -> Result<()> {
            let value = Tensor::leaf(values, shape)?;
            let moments = Moments::default();
            parameters.insert(part, Parameter { value, moments });
            Ok(())
        };
        for (part, matrix) in [(Part::A, pair.a), (Part::B, pair.b)] {
            insert(part, matrix.values, [matrix.rows, matrix.columns].into())?;
        }
        if let Some(magnitude) = pair.magnitude {
            insert(Part::Magnitude, magnitude, [outputs].into())?;
        }
        let layer = Layer {
            parameters,
            inverse_lengths: None,
        };
        state.layers.insert(path.to_owned(), layer);
        Ok(true)
    }

    /// `pair`, or an error when it is not of the layer's shape or of this kind of adapter.
    fn fitting(&self, pair: Pair, site: &Site) -> Result<Pair> {
        let Site {
            path,
            outputs,
            inputs,
        } = site;
        let rank = self.config.rank_of(path);
        let Pair { a, b, magnitude } = &pair;
        if (a.rows, a.columns) != (rank, *inputs) || (b.rows, b.columns) != (*outputs, rank) {
            bail!(
                BadAdapter,
                "{path}: the adapter's A is [{}, {}] and B [{}, {}], the layer needs [{rank}, {inputs}] and [{outputs}, {rank}]",
                a.rows,
                a.columns,
                b.rows,
                b.columns
            );
        }
        let needed = self.config.dora.then_some(*outputs);
        if magnitude.as_ref().map(Vec::len) != needed {
            bail!(
                BadAdapter,
                "{path}: the adapter has {} magnitudes, this one needs {}",
                magnitude.as_ref().map_or(0, Vec::len),
                needed.unwrap_or(0)
            );
        }
        Ok(pair)
    }

    /// Call once the model is loaded: refuses settings that fit no layer and pairs that no layer took.
    pub fn finish(&self) -> Result<()> {
        let state = self.lock();
        if let Some(path) = state.initial.keys().next() {
            bail!(
                BadAdapter,
                "the adapter has weights for {path}, which this model does not have; it was made for another base"
            );
        }
        self.config.check(&state.offered)
    }

    /// The factors of the layer `path`: leaves when `recording`, plain values otherwise. `weight` is the layer's own.
    pub fn factors(&self, path: &str, weight: &Weight, recording: bool) -> Result<Factors> {
        let state = self.lock();
        let Some(layer) = state.layers.get(path) else {
            bail!(Internal, "{path} has no adapter");
        };
        let part = |part| {
            let parameter = layer.parameters.get(&part)?;
            Some(match recording {
                true => parameter.value.clone(),
                false => parameter.value.detach(),
            })
        };
        let (Some(a), Some(b)) = (part(Part::A), part(Part::B)) else {
            bail!(Internal, "{path} has half an adapter");
        };
        let (magnitude, known) = (part(Part::Magnitude), layer.inverse_lengths.clone());
        // The lengths take a pass over the weight: nobody should wait for the lock meanwhile.
        drop(state);
        let scale = self.config.scale_of(path);
        let dora = match magnitude {
            Some(magnitude) => {
                let inverse_lengths = match known {
                    Some(known) => known,
                    None => self.derive(path, weight, (&a, &b), scale)?,
                };
                Some(DoraLengths {
                    magnitude,
                    inverse_lengths,
                })
            }
            None => None,
        };
        Ok(Factors { a, b, scale, dora })
    }

    /// 1 / ‖W + s·B·A‖, kept until the next update.
    fn derive(
        &self,
        path: &str,
        weight: &Weight,
        (a, b): (&Tensor, &Tensor),
        scale: f32,
    ) -> Result<Tensor> {
        let kind = LayerKind::of(path);
        let product = Product {
            kind,
            a: a.values()?,
            b: b.values()?,
            rank: a.shape().rows(),
            scale,
        };
        let lengths = lengths(weight, kind, Some(product))?;
        let count = lengths.len();
        let inverses = Tensor::new(lengths.into_iter().map(inverse).collect(), [count])?;
        if let Some(layer) = self.lock().layers.get_mut(path) {
            layer.inverse_lengths = Some(inverses.clone());
        }
        Ok(inverses)
    }

    /// Whether a layer at `path` or below it is trained.
    pub fn learns(&self, path: &str) -> bool {
        let state = self.lock();
        let mut inside = state
            .layers
            .keys()
            .filter_map(|layer| layer.strip_prefix(path));
        inside.any(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// How many values are trained.
    pub fn parameter_count(&self) -> usize {
        let state = self.lock();
        let layers = state.layers.values();
        let parameters = layers.flat_map(|layer| layer.parameters.values());
        parameters
            .map(|parameter| parameter.value.shape().elements())
            .sum()
    }

    /// First phase of a step: the sum of squares of all gradients.
    pub fn grad_stats(&self, grads: &Grads) -> Result<GradStats> {
        let mut stats = GradStats::default();
        for layer in self.lock().layers.values() {
            for parameter in layer.parameters.values() {
                if let Some(gradient) = grads.get(&parameter.value) {
                    let squares = gradient.values()?.iter().map(|g| f64::from(*g).powi(2));
                    stats.sum_of_squares += squares.sum::<f64>();
                }
            }
        }
        Ok(stats)
    }

    /// The name in PEFT's files of a parameter whose gradient is not finite: of those, one of the last layer, where the
    /// gradients come from.
    pub fn not_finite(&self, grads: &Grads) -> Result<Option<String>> {
        let mut found: Vec<(Option<usize>, String)> = Vec::new();
        for (path, layer) in &self.lock().layers {
            for (part, parameter) in &layer.parameters {
                if let Some(gradient) = grads.get(&parameter.value)
                    && gradient.values()?.iter().any(|g| !g.is_finite())
                {
                    found.push((layer_of(path), part.peft_name(path)));
                }
            }
        }
        Ok(found.into_iter().max().map(|(_, name)| name))
    }

    /// Second phase: updates every parameter by its gradient times `scale`.
    pub fn apply(&self, optimizer: Optimizer, lr: f64, scale: f64, grads: &Grads) -> Result<()> {
        let mut state = self.lock();
        state.updates += 1;
        let update = (lr, scale, state.updates);
        let parameters = state.layers.values_mut().flat_map(|layer| {
            layer.changed();
            layer.parameters.values_mut()
        });
        let learning: Vec<_> = parameters
            .filter_map(|parameter| Some((grads.get(&parameter.value)?, parameter)))
            .collect();
        learning
            .into_par_iter()
            .try_for_each(|(gradient, Parameter { value, moments })| {
                let mut values = value.values()?.to_vec();
                let gradient = gradient.values()?;
                vectorise(|| optimizer.update(update, &mut values, gradient, moments));
                *value = Tensor::leaf(values, value.shape().clone())?;
                Ok(())
            })
    }

    /// A copy of all pairs, by path.
    pub fn pairs(&self) -> Result<BTreeMap<String, Pair>> {
        let state = self.lock();
        let copy = |(path, layer): (&String, &Layer)| {
            let matrix = |part| matrix(&layer.parameters[&part].value);
            let mut pair = Pair::new(matrix(Part::A)?, matrix(Part::B)?);
            if let Some(magnitude) = layer.parameters.get(&Part::Magnitude) {
                pair.magnitude = Some(magnitude.value.values()?.to_vec());
            }
            Ok((path.clone(), pair))
        };
        state.layers.iter().map(copy).collect()
    }

    /// The paths of all layers of the model that were offered, targeted or not, once it has been loaded.
    pub fn layers(&self) -> BTreeSet<String> {
        let state = self.lock();
        let offered = state.offered.iter();
        offered.map(|site| site.path.clone()).collect()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn matrix(value: &Tensor) -> Result<Matrix> {
    let shape: &Shape = value.shape();
    Ok(Matrix {
        rows: shape.rows(),
        columns: shape.last(),
        values: value.values()?.to_vec(),
    })
}
