//! Shapes of row-major, contiguous tensors.

use std::fmt;
use std::ops::Deref;

/// The lengths of the axes, outermost first. A scalar has none.
#[derive(Clone, PartialEq, Eq)]
pub struct Shape(Box<[usize]>);

impl Shape {
    /// The number of elements: the product of all axes, 1 for a scalar.
    pub fn elements(&self) -> usize {
        self.0.iter().product()
    }

    /// The length of the last axis, 1 for a scalar.
    pub fn last(&self) -> usize {
        self.0.last().copied().unwrap_or(1)
    }

    /// How many rows of the last axis there are.
    pub fn rows(&self) -> usize {
        self.0[..self.0.len().saturating_sub(1)].iter().product()
    }

    /// The same shape with another last axis.
    pub fn with_last(&self, last: usize) -> Shape {
        let mut axes = self.0.to_vec();
        match axes.last_mut() {
            Some(axis) => *axis = last,
            None => axes.push(last),
        }
        Shape(axes.into())
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(axes: [usize; N]) -> Self {
        Shape(Box::new(axes))
    }
}

impl From<&[usize]> for Shape {
    fn from(axes: &[usize]) -> Self {
        Shape(axes.into())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}
