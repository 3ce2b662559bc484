//! A graph of sizes: the life of every tensor in a forward and its backward, as `autograd` has them, without any values.
//!
//! Blocks are counted while somebody holds them, so what is freed when follows from the same ownership as in `tensor`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Counts the bytes that are alive, and the most there were.
#[derive(Default)]
pub struct Tape {
    now: Rc<Cell<usize>>,
    peak: Cell<usize>,
    next: Cell<usize>,
}

/// Memory that is alive while it is held.
pub struct Block {
    now: Rc<Cell<usize>>,
    bytes: usize,
}

impl Drop for Block {
    fn drop(&mut self) {
        self.now.set(self.now.get() - self.bytes);
    }
}

/// A tensor without values.
#[derive(Clone)]
pub struct Phantom(Rc<Inner>);

struct Inner {
    id: usize,
    bytes: usize,
    node: Option<Rc<Node>>,
    _values: Option<Rc<Block>>,
}

struct Node {
    inputs: Vec<Phantom>,
    _output: Option<Rc<Block>>,
    _saved: Rc<Block>,
    op: Op,
}

impl Phantom {
    fn comes_again(&self) -> bool {
        self.0.node.as_ref().is_some_and(|node| node.op.again)
    }

    fn without_values(&self) -> Phantom {
        Phantom(Rc::new(Inner {
            id: self.0.id,
            bytes: self.0.bytes,
            node: self.0.node.clone(),
            _values: None,
        }))
    }
}

/// What of an op stays for its gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    Nothing,
    Inputs,
    InputsAndOutput,
    Output,
    LastInput,
}

/// What gradients an op gives its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passes {
    /// New memory for each.
    Fresh,
    /// Its own gradient, shared.
    Own,
    /// Its own to the first, new memory to the second: a sum with a factor.
    OwnAndFresh,
}

/// What an op occupies beside its inputs.
#[derive(Debug, Clone, Copy)]
pub struct Op {
    /// Bytes of its output.
    pub output: usize,
    /// Bytes it keeps for its backward.
    pub saved: usize,
    /// Bytes it needs while it runs forward, and backward.
    pub working: [usize; 2],
    /// Bytes of the parameter it multiplies by, whose gradient stays.
    pub parameter: usize,
    pub passes: Passes,
    pub keeps: Keeps,
    /// Its output is computed again for the gradients that read it.
    pub again: bool,
}

impl Op {
    /// An op with an output of so many bytes and new memory for each gradient, which needs the inputs.
    pub fn of(output: usize) -> Op {
        Op {
            output,
            saved: 0,
            working: [0, 0],
            parameter: 0,
            passes: Passes::Fresh,
            keeps: Keeps::Inputs,
            again: false,
        }
    }
}

impl Keeps {
    /// Whether input `index` of `count`.
    fn input(self, index: usize, count: usize) -> bool {
        match self {
            Keeps::Inputs | Keeps::InputsAndOutput => true,
            Keeps::LastInput => index + 1 == count,
            Keeps::Nothing | Keeps::Output => false,
        }
    }
}

impl Tape {
    pub fn peak(&self) -> usize {
        self.peak.get()
    }

    pub fn block(&self, bytes: usize) -> Rc<Block> {
        self.now.set(self.now.get() + bytes);
        self.peak.set(self.peak.get().max(self.now.get()));
        let now = self.now.clone();
        Rc::new(Block { now, bytes })
    }

    /// An input whose values lie elsewhere and are counted there.
    pub fn input(&self, bytes: usize) -> Phantom {
        self.tensor(bytes, self.block(0), None)
    }

    fn tensor(&self, bytes: usize, values: Rc<Block>, node: Option<Rc<Node>>) -> Phantom {
        self.next.set(self.next.get() + 1);
        Phantom(Rc::new(Inner {
            id: self.next.get(),
            bytes,
            node,
            _values: Some(values),
        }))
    }

    pub fn op(&self, inputs: &[&Phantom], op: Op) -> Phantom {
        let values = self.block(op.output);
        let saved = self.block(op.saved);
        drop(self.block(op.working[0]));
        let kept = |(index, input): (usize, &&Phantom)| match op.keeps.input(index, inputs.len())
            && !input.comes_again()
        {
            true => (*input).clone(),
            false => input.without_values(),
        };
        let output = match op.keeps {
            Keeps::Output | Keeps::InputsAndOutput => Some(values.clone()),
            Keeps::Nothing | Keeps::Inputs | Keeps::LastInput => None,
        };
        let node = Node {
            inputs: inputs.iter().enumerate().map(kept).collect(),
            _output: output,
            _saved: saved,
            op,
        };
        self.tensor(op.output, values, Some(Rc::new(node)))
    }

    /// Walks back from `y` as `autograd::backward` does. `dy` stays alive when the caller holds it too.
    pub fn backward(&self, y: Phantom, dy: Rc<Block>) {
        let mut parameters = Vec::new();
        let mut pending = BTreeMap::from([(y.0.id, (y, dy))]);
        let mut again: Option<(usize, Rc<Block>)> = None;
        while let Some((id, (y, dy))) = pending.pop_last() {
            again.take_if(|(known, _)| *known >= id);
            let Some(node) = &y.0.node else {
                parameters.push(dy);
                continue;
            };
            for (index, input) in node.inputs.iter().enumerate() {
                let reads = node.op.keeps.input(index, node.inputs.len());
                let known = again.as_ref().is_some_and(|(id, _)| *id == input.0.id);
                if reads && input.comes_again() && !known {
                    drop(again.take());
                    again = Some((input.0.id, self.block(input.0.bytes)));
                }
            }
            let working = self.block(node.op.working[1]);
            let gradient = |(index, input): (usize, &Phantom)| match (node.op.passes, index) {
                (Passes::Own, _) | (Passes::OwnAndFresh, 0) => dy.clone(),
                _ => self.block(input.0.bytes),
            };
            let gradients: Vec<_> = node.inputs.iter().enumerate().map(gradient).collect();
            parameters.push(self.block(node.op.parameter));
            drop(working);
            for (input, gradient) in node.inputs.iter().zip(gradients) {
                let sum = match pending.remove(&input.0.id) {
                    // In place where nobody else holds it.
                    Some((_, known)) if Rc::strong_count(&known) == 1 => known,
                    Some(_) => self.block(input.0.bytes),
                    None => gradient,
                };
                pending.insert(input.0.id, (input.clone(), sum));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_frees_what_was_passed_on() {
        let tape = Tape::default();
        let mut y = tape.input(10);
        for _ in 0..3 {
            y = tape.op(&[&y], Op::of(10));
        }
        assert_eq!(tape.peak(), 30);
        let dy = tape.block(10);
        tape.backward(y, dy);
        // Three outputs, a gradient, and the next one; afterwards an output less at every step.
        assert_eq!(tape.peak(), 50);
        assert_eq!(tape.now.get(), 0);
    }

    #[test]
    fn what_comes_again_is_not_kept_and_lives_while_it_is_read() {
        let tape = Tape::default();
        let mut y = tape.input(0);
        for _ in 0..3 {
            let again = true;
            let cheap = tape.op(
                &[&y],
                Op {
                    again,
                    ..Op::of(10)
                },
            );
            y = tape.op(&[&cheap], Op::of(1));
        }
        // Three small outputs, and one large one while it is there.
        assert_eq!(tape.peak(), 12 + 1);
        let dy = tape.block(1);
        tape.backward(y, dy);
        // Of the last: the result again, its gradient, and that of y.
        assert_eq!(tape.peak(), 2 + 1 + 10 + 10 + 1);
        assert_eq!(tape.now.get(), 0);
    }

    #[test]
    fn a_shared_gradient_is_one_and_its_sum_another() {
        let tape = Tape::default();
        let x = tape.input(10);
        let y = tape.op(&[&x], Op::of(10));
        let sum = Op {
            passes: Passes::Own,
            ..Op::of(10)
        };
        let z = tape.op(&[&x, &y], sum);
        drop((x, y));
        let dy = tape.block(10);
        let held = dy.clone();
        tape.backward(z, dy);
        // z is gone by then: y, the gradient that is held, that of y's input, and the sum of both.
        assert_eq!(tape.peak(), 40);
        drop(held);
        assert_eq!(tape.now.get(), 0);
    }
}
