//! The golden numbers of `__test__/fixtures/models`, made by `__test__/reference/models.py`.

// Each test binary uses a part of this.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use amv_train::format::safetensors::Safetensors;
use amv_train::lora::{Matrix, Pair};
use amv_train::ops::Pairs;
use serde_json::Value;

pub struct Golden {
    pub json: Value,
    pub tensors: Safetensors,
}

impl Golden {
    pub fn open(case: &Path, stem: &str) -> Golden {
        let text = std::fs::read_to_string(case.join(format!("{stem}.json"))).unwrap();
        Golden {
            json: serde_json::from_str(&text).unwrap(),
            tensors: Safetensors::open(&case.join(format!("{stem}.safetensors"))).unwrap(),
        }
    }

    pub fn values(&self, name: &str) -> Vec<f32> {
        self.tensors.weight(name).unwrap().to_f32().unwrap()
    }

    pub fn matrix(&self, name: &str) -> Matrix {
        let weight = self.tensors.weight(name).unwrap();
        Matrix {
            rows: weight.shape()[0],
            columns: weight.shape()[1],
            values: weight.to_f32().unwrap(),
        }
    }

    /// Paths of the layers that have an adapter.
    pub fn paths(&self) -> Vec<String> {
        let path = |key: &str| {
            let path = key
                .strip_prefix("base_model.model.")?
                .strip_suffix(".lora_A.weight")?;
            Some(path.to_owned())
        };
        self.tensors.tensor_names().filter_map(path).collect()
    }

    /// The adapter, with B's rows in the order of a base with these heads and this order of rotary pairs.
    pub fn pairs(&self, heads: (usize, usize), order: Pairs) -> BTreeMap<String, Pair> {
        let pair = |path: String| {
            let a = self.matrix(&format!("base_model.model.{path}.lora_A.weight"));
            let mut b = self.matrix(&format!("base_model.model.{path}.lora_B.weight"));
            let interleaved = order == Pairs::Interleaved;
            b.values = permuted(&b.values, b.rows, &path, heads, interleaved);
            (path, Pair::new(a, b))
        };
        self.paths().into_iter().map(pair).collect()
    }

    pub fn samples(&self) -> Vec<Vec<u32>> {
        serde_json::from_value(self.json["input_ids"].clone()).unwrap()
    }
}

pub fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("__test__/fixtures/models")
        .join(name)
}

/// The rows of B as the file at hand orders them: GGUF llama files interleave those of q and k.
pub fn permuted(
    values: &[f32],
    rows: usize,
    path: &str,
    heads: (usize, usize),
    interleaved: bool,
) -> Vec<f32> {
    let heads = match path.rsplit('.').next() {
        Some("q_proj") if interleaved => heads.0,
        Some("k_proj") if interleaved => heads.1,
        _ => return values.to_vec(),
    };
    let (columns, half) = (values.len() / rows, rows / heads / 2);
    let mut out = vec![0.0; values.len()];
    for row in 0..rows {
        let (head, part, i) = (row / (2 * half), row / half % 2, row % half);
        let to = head * 2 * half + 2 * i + part;
        out[to * columns..][..columns].copy_from_slice(&values[row * columns..][..columns]);
    }
    out
}
