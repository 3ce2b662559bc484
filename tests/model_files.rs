//! The writers against files that PyPI gguf and safetensors wrote (`__test__/reference/model_files.py`), byte for byte.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use amv_train::backend::Bytes;
use amv_train::format::gguf::{self, Array, GgufFile, Metadata, Value};
use amv_train::format::safetensors::{self, Safetensors};
use amv_train::quant::{Format, Weight};
use amv_train::shape::Shape;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("__test__/fixtures")
        .join(name)
}

/// -3, -2.75, -2.5, …: exact in every float type.
fn ramp(count: usize) -> Vec<f32> {
    (0..count).map(|i| i as f32 / 4.0 - 3.0).collect()
}

fn f32s<const N: usize>(shape: [usize; N]) -> Weight {
    let shape = Shape::from(shape);
    let values = Bytes::from_f32(ramp(shape.elements()));
    Weight::new(Format::F32, shape, values).unwrap()
}

/// The ramp in 16 bits. bf16 is the upper half of an f32; f16 goes through the `half` crate.
fn halves(format: Format, count: usize) -> Weight {
    let bits = |value: f32| match format {
        Format::BF16 => (value.to_bits() >> 16) as u16,
        _ => half::f16::from_f32(value).to_bits(),
    };
    let bytes: Vec<u8> = ramp(count)
        .into_iter()
        .flat_map(|x| bits(x).to_le_bytes())
        .collect();
    Weight::new(format, Shape::from([count]), Bytes::copy_of(&bytes)).unwrap()
}

fn metadata(alignment: Option<u32>) -> Metadata {
    let mut metadata = Metadata::new();
    let mut set = |key: &str, value| metadata.set(key, value);
    set("general.architecture", Value::String("llama".into()));
    if let Some(alignment) = alignment {
        set("general.alignment", Value::U32(alignment));
    }
    set("test.u8", Value::U8(200));
    set("test.i8", Value::I8(-100));
    set("test.u16", Value::U16(60000));
    set("test.i16", Value::I16(-30000));
    set("test.u32", Value::U32(4_000_000_000));
    set("test.i32", Value::I32(-2_000_000_000));
    set("test.f32", Value::F32(0.1));
    set("test.bool", Value::Bool(true));
    set("test.string", Value::String("Grüße, 世界".into()));
    set("test.u64", Value::U64((1 << 63) + 1));
    set("test.i64", Value::I64(-(1 << 62)));
    set("test.f64", Value::F64(0.1));
    set("test.u8s", Value::Array(Array::U8s(vec![0, 255])));
    set("test.i8s", Value::Array(Array::I8s(vec![-128, 127])));
    set("test.u16s", Value::Array(Array::U16s(vec![1, 65535])));
    set("test.i16s", Value::Array(Array::I16s(vec![-32768, 1])));
    set("test.u32s", Value::Array(Array::U32s(vec![1, u32::MAX])));
    set("test.i32s", Value::Array(Array::I32s(vec![i32::MIN, 3])));
    set(
        "test.f32s",
        Value::Array(Array::F32s(vec![0.5, -1.25, 3.0])),
    );
    set(
        "test.bools",
        Value::Array(Array::Bools(vec![true, false, true])),
    );
    let strings = ["<s>", "", "▁the"].map(String::from).to_vec();
    set("test.strings", Value::Array(Array::Strings(strings)));
    set("test.u64s", Value::Array(Array::U64s(vec![u64::MAX])));
    set("test.i64s", Value::Array(Array::I64s(vec![i64::MIN])));
    set("test.f64s", Value::Array(Array::F64s(vec![1e300])));
    metadata
}

#[test]
fn gguf_files_are_those_of_the_reference_byte_for_byte() {
    for (name, alignment) in [
        ("written.gguf", None),
        ("written_aligned_64.gguf", Some(64)),
    ] {
        let reference = GgufFile::open(&fixture(name)).unwrap();
        let metadata = metadata(alignment);
        assert_eq!(reference.metadata(), &metadata);
        // Quantising is not this test's matter: the packed rows come from the reference.
        let packed = reference.weight("output.weight").unwrap();
        assert_eq!(
            (packed.format(), &packed.shape()[..]),
            (Format::Q8_0, &[2, 32][..])
        );
        let tensors = [
            ("token_embd.weight".into(), f32s([5, 3])),
            ("output_norm.weight".into(), halves(Format::F16, 3)),
            ("output.weight".into(), packed),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        gguf::write(&path, &metadata, &tensors).unwrap();
        assert!(
            fs::read(&path).unwrap() == fs::read(fixture(name)).unwrap(),
            "{name}"
        );

        for (tensor, expected) in &tensors {
            let weight = reference.weight(tensor).unwrap();
            assert_eq!(weight.shape(), expected.shape());
            assert_eq!(weight.to_f32().unwrap(), expected.to_f32().unwrap());
            assert!(weight.bytes().is_mapped());
        }
    }
}

#[test]
fn safetensors_files_are_those_of_the_reference_byte_for_byte() {
    let scalar = Weight::new(Format::F32, Shape::from([]), Bytes::from_f32(vec![0.5])).unwrap();
    let tensors = [
        ("a.weight".into(), halves(Format::F16, 3)),
        ("z.weight".into(), f32s([5, 3])),
        ("b.weight".into(), f32s([2, 1, 2])),
        ("m.weight".into(), halves(Format::BF16, 3)),
        ("scalar".into(), scalar),
    ];
    let metadata = BTreeMap::from([("format".into(), "pt".into())]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("written.safetensors");
    safetensors::write(&path, &metadata, &tensors).unwrap();
    let reference = fixture("written.safetensors");
    assert!(fs::read(&path).unwrap() == fs::read(&reference).unwrap());

    let model = Safetensors::open(&reference).unwrap();
    assert_eq!(model.metadata(), &metadata);
    for (name, expected) in &tensors {
        let weight = model.weight(name).unwrap();
        assert_eq!(weight.shape(), expected.shape());
        assert_eq!(weight.format(), expected.format());
        assert_eq!(weight.to_f32().unwrap(), expected.to_f32().unwrap());
    }
}
