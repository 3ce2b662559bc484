//! Names of all tensor types that GGUF files may hold, so that errors can say which one is not read.

use super::Format;

/// The name of a GGML type, whether it can be read ([`Format::from_ggml`]) or not; none for an unknown id.
///
/// 36 to 38 are named as bitnet.cpp writes them: GGML has withdrawn its own use of these ids from files.
pub fn ggml_type_name(id: u32) -> Option<&'static str> {
    if let Some(format) = Format::from_ggml(id) {
        return Some(format.name());
    }
    let (_, name) = UNREAD.iter().find(|(unread, _)| *unread == id)?;
    Some(name)
}

/// Source: `enum ggml_type` in GGML's `ggml.h`; 36 to 38: the same in bitnet.cpp.
const UNREAD: [(u32, &str); 28] = [
    (4, "Q4_2"),
    (5, "Q4_3"),
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (36, "I2_S"),
    (37, "I8_S"),
    (38, "TL1"),
    (39, "MXFP4"),
    (40, "NVFP4"),
    (41, "Q1_0"),
    (42, "Q2_0"),
];
