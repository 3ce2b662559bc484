//! Everything of an adapter that training changes, tensor by tensor: what a checkpoint holds.

use crate::bail;
use crate::error::Result;
use crate::lora::Adapter;
use crate::lora::optimizer::Moments;
use crate::shape::Shape;
use crate::tensor::Tensor;

/// One trainable tensor and what the optimizer remembers of it.
pub struct ParameterView<'a> {
    /// As in PEFT's files, e.g. `base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight`.
    pub name: String,
    pub value: &'a Tensor,
    /// AdamW's running means of the gradient and of its square: as long as the value, or empty before the first update
    /// and for SGD.
    pub first: &'a [f32],
    pub second: &'a [f32],
}

/// The same, owned, to go on from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParameterState {
    pub values: Vec<f32>,
    pub first: Vec<f32>,
    pub second: Vec<f32>,
}

impl Adapter {
    /// Calls `each` for every trainable tensor in the order of updates: A, B and DoRA's magnitude of each layer, embeddings
    /// included. Rows of B are in the order of the base's own weights. Nothing is copied. Returns the number of updates
    /// so far, which AdamW's bias correction counts.
    pub fn each_parameter(&self, mut each: impl FnMut(ParameterView) -> Result<()>) -> Result<u64> {
        let state = self.lock();
        for (path, layer) in &state.layers {
            for (part, parameter) in &layer.parameters {
                each(ParameterView {
                    name: part.peft_name(path),
                    value: &parameter.value,
                    first: &parameter.moments.first,
                    second: &parameter.moments.second,
                })?;
            }
        }
        Ok(state.updates)
    }

    /// Takes over what `read(name, shape)` returns for every trainable tensor, and the number of updates.
    ///
    /// Errors: those of `read`, and `BAD_ADAPTER` for values or moments that are not as long as the tensor. An adapter is
    /// then partly restored and must not be trained.
    pub fn restore(
        &self,
        updates: u64,
        mut read: impl FnMut(&str, &Shape) -> Result<ParameterState>,
    ) -> Result<()> {
        let mut state = self.lock();
        for (path, layer) in &mut state.layers {
            layer.changed();
            for (part, parameter) in &mut layer.parameters {
                let (name, shape) = (part.peft_name(path), parameter.value.shape().clone());
                let ParameterState {
                    values,
                    first,
                    second,
                } = read(&name, &shape)?;
                let fits = |length| length == shape.elements() || length == 0;
                if values.len() != shape.elements()
                    || !fits(first.len())
                    || first.len() != second.len()
                {
                    bail!(
                        BadAdapter,
                        "{name} {shape} has {} values and moments of {} and {}",
                        values.len(),
                        first.len(),
                        second.len()
                    );
                }
                parameter.value = Tensor::leaf(values, shape)?;
                parameter.moments = Moments { first, second };
            }
        }
        state.updates = updates;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::lora::{LoraConfig, Optimizer, Targets};
    use crate::ops::check::{random, weight};
    use crate::quant::Format;
    use crate::tensor::Grads;

    const PATHS: [&str; 2] = ["model.embed_tokens", "model.layers.0.self_attn.q_proj"];

    fn adapter() -> Arc<Adapter> {
        let adapter = Adapter::new(LoraConfig {
            rank: 2,
            dora: true,
            targets: Targets::parse("q_proj,embed_tokens").unwrap(),
            ..LoraConfig::default()
        });
        for path in PATHS {
            assert!(adapter.attach(path, &weight(Format::F32, 7, 5)).unwrap());
        }
        adapter
    }

    type All = BTreeMap<String, ParameterState>;

    fn all(adapter: &Adapter) -> (u64, All) {
        let mut all = All::new();
        let updates = adapter.each_parameter(|view| {
            let state = ParameterState {
                values: view.value.values()?.to_vec(),
                first: view.first.to_vec(),
                second: view.second.to_vec(),
            };
            all.insert(view.name, state);
            Ok(())
        });
        (updates.unwrap(), all)
    }

    fn update(adapter: &Adapter) {
        let mut grads = Grads::default();
        adapter
            .each_parameter(|view| grads.add(view.value.id(), random(view.value.shape().clone())))
            .unwrap();
        adapter
            .apply(Optimizer::adamw(0.1), 1e-2, 1.0, &grads)
            .unwrap();
    }

    #[test]
    fn every_part_is_named_as_in_peft() {
        let (updates, all) = all(&adapter());
        let names: Vec<&str> = all.keys().map(String::as_str).collect();
        assert_eq!(updates, 0);
        assert_eq!(
            names,
            [
                "base_model.model.model.embed_tokens.lora_embedding_A",
                "base_model.model.model.embed_tokens.lora_embedding_B",
                "base_model.model.model.embed_tokens.lora_magnitude_vector",
                "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
                "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight",
                "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
            ]
        );
    }

    #[test]
    fn a_restored_adapter_goes_on_bit_for_bit() {
        let unbroken = adapter();
        update(&unbroken);
        let (updates, kept) = all(&unbroken);
        let resumed = adapter();
        resumed
            .restore(updates, |name, _| Ok(kept[name].clone()))
            .unwrap();
        for adapter in [&unbroken, &resumed] {
            update(adapter);
        }
        assert_eq!(all(&unbroken), all(&resumed));
        let short = |_: &str, _: &Shape| Ok(ParameterState::default());
        assert!(resumed.restore(updates, short).is_err());
    }

    #[test]
    fn the_lengths_follow_every_update() {
        let adapter = adapter();
        let w = weight(Format::F32, 7, 5);
        let lengths = |path| {
            let factors = adapter.factors(path, &w, true).unwrap();
            let lengths = factors.dora.unwrap().inverse_lengths;
            (lengths.id(), lengths.values().unwrap().to_vec())
        };
        for path in PATHS {
            let before = lengths(path);
            assert_eq!(before, lengths(path), "computed once a step");
            update(&adapter);
            assert_ne!(before.1, lengths(path).1);
        }
    }
}
