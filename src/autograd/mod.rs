//! The chain rule: walks from outputs back to leaves and adds up gradients.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bail;
use crate::error::Result;
use crate::tensor::{Ctx, Grads, Node, Segment, SegmentCall, Tensor, TensorId};

mod again;
use again::Again;

/// Adds the gradients of every tracked leaf below `y` to `grads`, given `dy`, the gradient of `y`.
///
/// Tensors are visited from the newest to the oldest: an output is always newer than its inputs, so when a tensor is
/// reached, all its uses have been. A gradient is dropped as soon as it has been passed on.
pub fn backward(y: Tensor, dy: Tensor, grads: &mut Grads) -> Result<()> {
    walk(vec![(y, dy)], grads)
}

/// Runs `segment` again on `x`, this time with a graph, and walks it back: the backward of every local segment.
pub fn replay(
    segment: &dyn Segment,
    x: &[Tensor],
    dy: &[Option<Tensor>],
    ctx: &Ctx,
    grads: &mut Grads,
) -> Result<Vec<Option<Tensor>>> {
    let leaf = |x: &Tensor| {
        if x.tracked() {
            x.tracked_leaf()
        } else {
            x.clone()
        }
    };
    let leaves: Vec<Tensor> = x.iter().map(leaf).collect();
    let outputs = segment.forward(&leaves, ctx)?;
    let seeds = outputs
        .into_iter()
        .zip(dy)
        .filter_map(|(y, dy)| Some((y, dy.clone()?)));
    walk(seeds.collect(), grads)?;
    Ok(leaves.iter().map(|leaf| grads.take(leaf)).collect())
}

fn walk(seeds: Vec<(Tensor, Tensor)>, grads: &mut Grads) -> Result<()> {
    let (mut pending, mut again) = (Pending::default(), Again::default());
    for (y, dy) in seeds {
        pending.add(&y, dy)?;
    }
    while let Some((id, (y, dy))) = pending.0.pop_last() {
        again.forget_from(id);
        match y.node() {
            None => grads.add(y.id(), dy)?,
            Some(Node::Reshape(x)) => pending.add(x, dy.reshape(x.shape().clone())?)?,
            Some(Node::Op {
                op,
                inputs,
                output,
                saved,
            }) => {
                let wanted: Vec<bool> = inputs.iter().map(Tensor::tracked).collect();
                let x = again.inputs(op.as_ref(), inputs)?;
                let dx = op.vjp(&x, &wanted, output, saved.as_ref(), &dy)?;
                pending.pass_on(inputs, dx)?;
            }
            Some(Node::Segment { call, output }) => {
                // The outputs of one call are made together, so their ids are neighbours and this is the newest with a gradient.
                let mut all = vec![None; call.outputs];
                all[*output] = Some(dy);
                while let Some((index, dy)) = pending.pop_sibling(call) {
                    all[index] = Some(dy);
                }
                let dx = call
                    .segment
                    .backward(&call.inputs, &all, &call.ctx, grads)?;
                pending.pass_on(&call.inputs, dx)?;
            }
        }
    }
    Ok(())
}

/// Tensors whose gradient is partly or wholly known, by age.
#[derive(Default)]
struct Pending(BTreeMap<TensorId, (Tensor, Tensor)>);

impl Pending {
    fn add(&mut self, tensor: &Tensor, gradient: Tensor) -> Result<()> {
        if !tensor.tracked() {
            return Ok(());
        }
        if gradient.shape() != tensor.shape() {
            bail!(
                Internal,
                "autograd: a gradient {} of {tensor:?}",
                gradient.shape()
            );
        }
        let sum = match self.0.remove(&tensor.id()) {
            Some((_, known)) => known.plus(&gradient)?,
            None => gradient,
        };
        self.0.insert(tensor.id(), (tensor.clone(), sum));
        Ok(())
    }

    fn pass_on(&mut self, inputs: &[Tensor], gradients: Vec<Option<Tensor>>) -> Result<()> {
        for (input, gradient) in inputs.iter().zip(gradients) {
            if let Some(gradient) = gradient {
                self.add(input, gradient)?;
            }
        }
        Ok(())
    }

    /// Takes the newest pending tensor if it is another output of `call`.
    fn pop_sibling(&mut self, call: &Arc<SegmentCall>) -> Option<(usize, Tensor)> {
        let newest = self.0.last_entry()?;
        let index = match newest.get().0.node() {
            Some(Node::Segment {
                call: other,
                output,
            }) if Arc::ptr_eq(call, other) => *output,
            _ => return None,
        };
        Some((index, newest.remove().1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Activation;
    use crate::tensor::{KvCache, Random, Rows, checkpoint};

    fn leaf(seed: u64, shape: [usize; 2]) -> Tensor {
        let random = Random::new(seed);
        let values = (0..(shape[0] * shape[1]) as u64).map(|i| random.uniform(i) - 0.5);
        Tensor::leaf(values.collect(), shape).unwrap()
    }

    fn ctx() -> Ctx {
        Ctx::train(Rows::of_samples(&[(0, 5)]).unwrap(), 1, 7)
    }

    fn ones(shape: [usize; 2]) -> Tensor {
        Tensor::new(vec![1.0; shape[0] * shape[1]], shape).unwrap()
    }

    fn gradients(y: Tensor) -> Grads {
        let mut grads = Grads::default();
        let dy = Tensor::new(vec![1.0; y.shape().elements()], y.shape().clone()).unwrap();
        backward(y, dy, &mut grads).unwrap();
        grads
    }

    fn values(grads: &Grads, leaf: &Tensor) -> Vec<f32> {
        let gradient = grads.get(leaf).expect("a gradient");
        gradient.values().unwrap().to_vec()
    }

    /// Two outputs of two inputs and one parameter; the first output uses the parameter twice.
    struct Layer {
        weight: Tensor,
    }

    impl Segment for Layer {
        fn forward(&self, x: &[Tensor], ctx: &Ctx) -> Result<Vec<Tensor>> {
            let weight = match ctx.recording {
                true => self.weight.clone(),
                false => self.weight.detach(),
            };
            let gate = x[0].matmul_t(&weight)?;
            let mixed = gate.gated(&x[1], Activation::Silu)?;
            Ok(vec![mixed.matmul(&weight)?.add(&x[0])?, gate.scale(0.5)?])
        }

        fn backward(
            &self,
            x: &[Tensor],
            dy: &[Option<Tensor>],
            ctx: &Ctx,
            grads: &mut Grads,
        ) -> Result<Vec<Option<Tensor>>> {
            replay(self, x, dy, ctx, grads)
        }
    }

    /// A loss that uses the outputs of two layers on top of each other, all of them or only the first of each.
    fn model(segments: &[Arc<dyn Segment>], x: &Tensor, run: Run, second: bool) -> Tensor {
        let (mut hidden, mut aside) = (x.clone(), leaf(9, [5, 3]).detach());
        for segment in segments {
            let y = run(segment, &[hidden, aside], &ctx()).unwrap();
            hidden = y[0].clone();
            aside = if second { y[1].clone() } else { y[1].detach() };
        }
        match second {
            true => hidden.gated(
                &aside.matmul(&leaf(8, [3, 7]).detach()).unwrap(),
                Activation::Silu,
            ),
            false => hidden.gated(&hidden, Activation::Silu),
        }
        .unwrap()
    }

    type Run = fn(&Arc<dyn Segment>, &[Tensor], &Ctx) -> Result<Vec<Tensor>>;
    const PLAIN: Run = |segment, x, ctx| segment.forward(x, ctx);

    #[test]
    fn checkpointed_segments_give_the_bits_of_the_plain_graph() {
        let weights = [leaf(1, [3, 7]), leaf(2, [3, 7])];
        let segment = |weight: &Tensor| -> Arc<dyn Segment> {
            Arc::new(Layer {
                weight: weight.clone(),
            })
        };
        let segments: Vec<_> = weights.iter().map(segment).collect();
        let x = leaf(3, [5, 7]);
        for second in [true, false] {
            let plain = model(&segments, &x, PLAIN, second);
            let kept = model(&segments, &x, checkpoint, second);
            assert_eq!(plain.values().unwrap(), kept.values().unwrap());
            let (plain, kept) = (gradients(plain), gradients(kept));
            for leaf in [&x, &weights[0], &weights[1]] {
                assert_eq!(values(&plain, leaf), values(&kept, leaf), "{leaf:?}");
                assert!(values(&kept, leaf).iter().any(|v| v.abs() > 1e-3));
            }
        }
    }

    #[test]
    fn a_segment_leaves_no_gradients_of_its_inputs_behind() {
        let segment: Arc<dyn Segment> = Arc::new(Layer {
            weight: leaf(1, [3, 7]),
        });
        let x = [leaf(3, [5, 7]), leaf(4, [5, 3]).detach()];
        let dy = [Some(ones([5, 7])), None];
        let mut grads = Grads::default();
        let dx = segment.backward(&x, &dy, &ctx(), &mut grads).unwrap();
        assert!(dx[0].is_some() && dx[1].is_none());
        assert!(grads.get(&x[0]).is_none());
    }

    #[test]
    fn without_recording_a_segment_leaves_no_history() {
        let segment: Arc<dyn Segment> = Arc::new(Layer {
            weight: leaf(1, [3, 7]),
        });
        let x = [leaf(3, [5, 7]).detach(), leaf(4, [5, 3]).detach()];
        let y = checkpoint(&segment, &x, &ctx().without_recording()).unwrap();
        assert!(y.iter().all(|y| !y.tracked() && y.node().is_none()));
    }

    #[test]
    fn a_tensor_used_twice_gets_both_gradients() {
        let x = leaf(1, [2, 3]);
        let y = x.scale(3.0).unwrap();
        let y = y.add(&y).unwrap().add(&x).unwrap();
        assert_eq!(values(&gradients(y), &x), [7.0; 6]);
    }

    #[test]
    fn gradients_of_two_passes_add_up() {
        let x = leaf(1, [2, 3]);
        let mut grads = Grads::default();
        for factor in [2.0, 0.5] {
            backward(x.scale(factor).unwrap(), ones([2, 3]), &mut grads).unwrap();
        }
        assert_eq!(values(&grads, &x), [2.5; 6]);
    }

    #[test]
    fn what_comes_again_has_the_gradients_of_what_is_kept() {
        let (x, weight) = (leaf(1, [5, 7]), leaf(2, [3, 7]));
        let ones_of_width = Tensor::new(vec![1.0; 7], [7]).unwrap();
        let gated = |x: &Tensor| {
            let normed = x.rms_norm(&ones_of_width, 1e-5).unwrap();
            normed.gated(&normed, Activation::Silu).unwrap()
        };
        let y = gated(&x);
        let kept = gated(&x).detach().tracked_leaf();
        let product = |y: &Tensor| y.matmul_t(&weight).unwrap();
        let y_by_weight = product(&y);
        let Some(Node::Op { inputs, .. }) = y_by_weight.node() else {
            panic!("a product is an op")
        };
        assert!(!inputs[0].has_values() && inputs[1].has_values());
        let (again, kept) = (gradients(product(&y)), gradients(product(&kept)));
        assert_eq!(values(&again, &weight), values(&kept, &weight));
        assert!(again.get(&x).is_some());
    }

    #[test]
    fn untracked_inputs_get_none_and_reshapes_pass_it_on() {
        let (x, fixed) = (leaf(1, [2, 3]), leaf(2, [3, 2]).detach());
        let y = x.reshape([3, 2]).unwrap().add(&fixed).unwrap();
        let grads = gradients(y);
        assert_eq!(grads.get(&x).unwrap().shape()[..], [2, 3]);
        assert!(grads.get(&fixed).is_none());
    }

    #[test]
    fn a_gradient_of_another_shape_is_an_error() {
        let y = leaf(1, [2, 3]).scale(2.0).unwrap();
        let error = backward(y, ones([3, 2]), &mut Grads::default()).unwrap_err();
        assert!(error.message.contains("[3, 2]"), "{}", error.message);
    }

    #[test]
    fn a_cache_appends_by_layer() {
        let cache = KvCache::default();
        let part = |first: usize, time: usize| {
            let values = (first * 6..(first + time) * 6).map(|i| i as f32).collect();
            Tensor::leaf(values, [time, 2, 3]).unwrap()
        };
        cache.append("b", &part(9, 1), &part(9, 1)).unwrap();
        cache.append("a", &part(0, 2), &part(5, 2)).unwrap();
        let (k, v) = cache.append("a", &part(2, 1), &part(7, 1)).unwrap();
        assert_eq!(k.values().unwrap(), part(0, 3).values().unwrap());
        assert_eq!(v.values().unwrap(), part(5, 3).values().unwrap());
        assert_eq!((k.shape()[0], k.tracked()), (3, false));
    }
}
