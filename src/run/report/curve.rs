//! Numbers over the steps of a run, however many, in a bounded number of points.

use serde_json::{Map, Value, json};

/// More points than a screen is wide show nothing more.
const MOST_POINTS: usize = 2000;

/// Some series over the same steps. While there are few steps every one is a point; then points are joined in twos, so
/// that all of them have the same `width` in steps, and keep mean, least and greatest value.
pub struct Curve {
    names: &'static [&'static str],
    width: usize,
    points: Vec<Point>,
}

struct Point {
    steps: usize,
    first: f64,
    last: f64,
    values: Vec<Values>,
}

/// The finite values of one series in one point.
#[derive(Clone, Copy)]
struct Values {
    count: usize,
    sum: f64,
    least: f64,
    greatest: f64,
}

impl Values {
    fn of(value: Option<f64>) -> Values {
        let value = value.filter(|value| value.is_finite());
        Values {
            count: usize::from(value.is_some()),
            sum: value.unwrap_or(0.0),
            least: value.unwrap_or(f64::INFINITY),
            greatest: value.unwrap_or(f64::NEG_INFINITY),
        }
    }

    fn join(&mut self, other: Values) {
        self.count += other.count;
        self.sum += other.sum;
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
    }

    fn json(self, number: f64) -> Value {
        match self.count {
            0 => Value::Null,
            _ => number.into(),
        }
    }
}

impl Curve {
    /// A curve of the series `names`, which are the members of the events it takes.
    pub fn new(names: &'static [&'static str]) -> Curve {
        Curve {
            names,
            width: 1,
            points: Vec::new(),
        }
    }

    /// Adds an event with `step` and the series; what is null or missing leaves a gap.
    pub fn add(&mut self, event: &Value) {
        let Some(step) = event["step"].as_f64() else {
            return;
        };
        let values = self
            .names
            .iter()
            .map(|name| Values::of(event[*name].as_f64()));
        let point = Point {
            steps: 1,
            first: step,
            last: step,
            values: values.collect(),
        };
        match self.points.last_mut() {
            Some(last) if last.steps < self.width => last.join(&point),
            _ => self.points.push(point),
        }
        if self.points.len() > MOST_POINTS {
            self.join_pairs();
        }
    }

    fn join_pairs(&mut self) {
        self.width *= 2;
        let mut joined: Vec<Point> = Vec::with_capacity(MOST_POINTS);
        for point in self.points.drain(..) {
            match joined.last_mut() {
                Some(last) if last.steps < self.width => last.join(&point),
                _ => joined.push(point),
            }
        }
        self.points = joined;
    }

    /// `{"width", "step": [...]}` and, for each series, an array of means; also `{name}Least` and `{name}Greatest` where a
    /// point is more than one step.
    pub fn json(&self) -> Value {
        let mut columns = Map::new();
        columns.insert("width".to_owned(), self.width.into());
        let steps = self.points.iter();
        let steps: Vec<f64> = steps
            .map(|point| (point.first + point.last) / 2.0)
            .collect();
        columns.insert("step".to_owned(), json!(steps));
        for (index, name) in self.names.iter().enumerate() {
            let column = |number: fn(&Values) -> f64| -> Value {
                let values = self.points.iter().map(|point| point.values[index]);
                values.map(|values| values.json(number(&values))).collect()
            };
            columns.insert((*name).to_owned(), column(|v| v.sum / v.count as f64));
            if self.width > 1 {
                columns.insert(format!("{name}Least"), column(|v| v.least));
                columns.insert(format!("{name}Greatest"), column(|v| v.greatest));
            }
        }
        columns.into()
    }
}

impl Point {
    fn join(&mut self, next: &Point) {
        self.steps += next.steps;
        self.last = next.last;
        for (values, other) in self.values.iter_mut().zip(&next.values) {
            values.join(*other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(json: &Value, name: &str) -> Vec<f64> {
        let values = json[name].as_array().unwrap().iter();
        values.map(|value| value.as_f64().unwrap()).collect()
    }

    #[test]
    fn few_steps_are_kept_as_they_are() {
        let mut curve = Curve::new(&["loss"]);
        for (step, loss) in [(1, json!(2.5)), (2, Value::Null), (3, json!(0.1))] {
            curve.add(&json!({ "type": "step", "step": step, "loss": loss }));
        }
        let expected = json!({ "width": 1, "step": [1.0, 2.0, 3.0], "loss": [2.5, null, 0.1] });
        assert_eq!(curve.json(), expected);
    }

    #[test]
    fn a_hundred_thousand_steps_become_a_screenful_with_the_same_mean_and_extremes() {
        let mut curve = Curve::new(&["loss"]);
        // A spike of one step must stay to be seen.
        let loss = |step: u32| {
            if step == 77_777 {
                99.0
            } else {
                1.0 / f64::from(step)
            }
        };
        for step in 1..=100_000 {
            curve.add(&json!({ "step": step, "loss": loss(step) }));
        }
        let json = curve.json();
        let (steps, means) = (column(&json, "step"), column(&json, "loss"));
        assert!(
            (1000..=MOST_POINTS).contains(&steps.len()),
            "{}",
            steps.len()
        );
        assert_eq!(json["width"], 64);
        assert!(steps.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!((steps[0], means.len()), (32.5, steps.len()));
        let first: f64 = (1..=64).map(loss).sum::<f64>() / 64.0;
        assert!((means[0] - first).abs() < 1e-12);
        let greatest = column(&json, "lossGreatest")
            .into_iter()
            .fold(0.0, f64::max);
        assert_eq!(greatest, 99.0);
        assert_eq!(column(&json, "lossLeast")[0], 1.0 / 64.0);
    }
}
