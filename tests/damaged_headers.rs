//! A thousand damaged headers of each format: every one is an error or a valid read, and memory stays near the file's size.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use amv_train::backend::Bytes;
use amv_train::error::Result;
use amv_train::format::Catalog;
use amv_train::format::gguf::{self, Array, GgufFile, Metadata, Value};
use amv_train::format::safetensors::{self, Safetensors};
use amv_train::quant::{Format, Weight};
use amv_train::shape::Shape;

/// Counts the bytes that the current thread holds, and the most it held.
struct Counting;

#[derive(Clone, Copy, Default)]
struct Use {
    now: isize,
    most: isize,
}

thread_local! {
    static USE: Cell<Use> = const { Cell::new(Use { now: 0, most: 0 }) };
}

fn count(freed: usize, taken: usize) {
    USE.with(|cell| {
        let mut memory = cell.get();
        memory.now += taken as isize - freed as isize;
        memory.most = memory.most.max(memory.now);
        cell.set(memory);
    });
}

// Safety: every request goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(0, layout.size());
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(layout.size(), 0);
        unsafe { System.dealloc(memory, layout) }
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), size);
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most memory that `open` held at once, in bytes.
fn most_memory<T>(open: impl FnOnce() -> T) -> (T, usize) {
    let before = USE.get().now;
    USE.set(Use {
        now: before,
        most: before,
    });
    let result = open();
    (result, (USE.get().most - before) as usize)
}

/// xorshift64*: the same damage in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        mixed as usize % limit
    }
}

/// Cuts `file` inside its header, or flips one to four bits of it.
fn damage(file: &[u8], header: usize, random: &mut Random) -> Vec<u8> {
    let mut file = file.to_vec();
    if random.below(2) == 0 {
        file.truncate(random.below(header));
    } else {
        for _ in 0..=random.below(4) {
            file[random.below(header)] ^= 1 << random.below(8);
        }
    }
    file
}

/// A tensor of consecutive values in `format`, whose bytes do not matter here.
fn tensor<const N: usize>(format: Format, shape: [usize; N]) -> Weight {
    let shape = Shape::from(shape);
    let blocks = shape.elements() / format.block_elements();
    let bytes = vec![1; blocks * format.block_bytes()];
    Weight::new(format, shape, Bytes::copy_of(&bytes)).unwrap()
}

fn gguf_model() -> (Metadata, Vec<(String, Weight)>) {
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", Value::String("llama".into()));
    metadata.set("general.alignment", Value::U32(32));
    metadata.set("llama.block_count", Value::U32(2));
    metadata.set("llama.rope.freq_base", Value::F32(10000.0));
    metadata.set("tokenizer.ggml.add_bos_token", Value::Bool(true));
    let tokens = (0..100).map(|i| format!("▁token{i}")).collect();
    metadata.set(
        "tokenizer.ggml.tokens",
        Value::Array(Array::Strings(tokens)),
    );
    metadata.set(
        "tokenizer.ggml.scores",
        Value::Array(Array::F32s(vec![0.5; 100])),
    );
    let nested = Array::Arrays(vec![Array::I32s(vec![1, 2]), Array::Bools(vec![true])]);
    metadata.set("test.nested", Value::Array(nested));
    let tensors = vec![
        ("token_embd.weight".into(), tensor(Format::Q4_0, [100, 64])),
        ("blk.0.attn_q.weight".into(), tensor(Format::Q8_0, [64, 64])),
        ("blk.0.ffn_up.weight".into(), tensor(Format::F16, [128, 64])),
        (
            "blk.0.ffn_down.weight".into(),
            tensor(Format::Q4K, [64, 256]),
        ),
        ("output_norm.weight".into(), tensor(Format::F32, [64])),
    ];
    (metadata, tensors)
}

/// Opens a thousand damaged copies of `file`, reads all that can be read, and returns how many could be opened.
fn open_damaged<Model>(
    file: &[u8],
    header: usize,
    name: &str,
    open: impl Fn(&Path) -> Result<Model>,
    catalog: impl Fn(&Model) -> &Catalog,
) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut opened = 0;
    for case in 0..1000 {
        let damaged = damage(file, header, &mut random);
        fs::write(&path, &damaged).unwrap();

        let (model, most) = most_memory(|| open(&path));
        // The constant is for paths, messages and the first growth of maps.
        assert!(
            most <= damaged.len() + 8192,
            "case {case}: {most} bytes for a file of {}",
            damaged.len()
        );

        match model {
            Err(error) => assert!(error.message.contains(name), "case {case}: {error}"),
            Ok(model) => {
                opened += 1;
                let catalog = catalog(&model);
                for name in catalog.names() {
                    if let Ok(weight) = catalog.weight(name) {
                        weight.to_f32().unwrap();
                    }
                }
            }
        }
    }
    opened
}

/// Headers packed with the smallest entries there are. They are valid, so their items must be held; what an item takes
/// in memory over its bytes in the file is the bound.
#[test]
fn headers_made_of_the_smallest_entries_stay_in_proportion() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packed.gguf");
    let start = |tensors: u64, entries: u64| {
        let mut file = b"GGUF\x03\0\0\0".to_vec();
        file.extend(tensors.to_le_bytes());
        file.extend(entries.to_le_bytes());
        file
    };
    let assert_held = |file: &[u8], valid, times| {
        fs::write(&path, file).unwrap();
        let (model, most) = most_memory(|| GgufFile::open(&path));
        assert_eq!(model.is_ok(), valid);
        assert!(
            most <= times * file.len() + 8192,
            "{most} bytes for a file of {}",
            file.len()
        );
    };

    // One array of 100,000 empty strings: 8 bytes each in the file, 24 in memory, doubled while it grows.
    let mut strings = start(0, 1);
    strings.extend(1u64.to_le_bytes());
    strings.extend(*b"k\x09\0\0\0\x08\0\0\0");
    strings.extend(100_000u64.to_le_bytes());
    strings.resize(strings.len() + 800_000, 0);
    assert_held(&strings, true, 4);
    // The same with a count that the file can hold and its content cannot.
    let second = strings.len() - 799_992;
    strings[second..].fill(0xff);
    assert_held(&strings, false, 1);
    // 20,000 scalars that share their data: 29 bytes each in the file; a name, a shape and a place in the index in memory.
    let mut tensors = start(20_000, 0);
    for i in 0..20_000 {
        tensors.extend(5u64.to_le_bytes());
        tensors.extend(format!("{i:05}").bytes());
        tensors.extend([0; 16]);
    }
    tensors.extend([0; 64]);
    assert_held(&tensors, true, 10);
}

#[test]
fn a_thousand_damaged_gguf_headers_are_errors_or_valid_reads() {
    let (metadata, tensors) = gguf_model();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    gguf::write(&path, &metadata, &tensors).unwrap();
    let file = fs::read(&path).unwrap();
    let data: usize = tensors.iter().map(|(_, weight)| weight.bytes().len()).sum();
    let opened = open_damaged(
        &file,
        file.len() - data,
        "x.gguf",
        GgufFile::open,
        GgufFile::catalog,
    );
    // A flipped bit of a token or a value is no error of the format.
    assert!((100..600).contains(&opened), "{opened} were opened");
}

#[test]
fn a_thousand_damaged_safetensors_headers_are_errors_or_valid_reads() {
    let mut tensors = vec![("lm_head.weight".to_string(), tensor(Format::BF16, [64, 64]))];
    for layer in 0..20 {
        let name = format!("model.layers.{layer}.input_layernorm.weight");
        tensors.push((name, tensor(Format::F32, [64])));
    }
    let metadata = BTreeMap::from([("format".to_string(), "pt".to_string())]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    safetensors::write(&path, &metadata, &tensors).unwrap();
    let file = fs::read(&path).unwrap();
    let header = 8 + u64::from_le_bytes(*file.first_chunk().unwrap()) as usize;
    let opened = open_damaged(
        &file,
        header,
        "x.safetensors",
        Safetensors::open,
        Safetensors::catalog,
    );
    assert!((50..600).contains(&opened), "{opened} were opened");
}
