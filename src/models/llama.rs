//! Llama (arXiv:2307.09288, arXiv:2407.21783) and Mistral (arXiv:2310.06825): the decoder as it is, with a window in the
//! first Mistral. GGUF files store the rows of q and k interleaved.

use crate::error::Result;
use crate::format::Config;
use crate::models::DecoderSpec;
use crate::models::spec::read_window;
use crate::ops::Pairs;

pub fn read(config: &Config) -> Result<DecoderSpec> {
    let mut spec = DecoderSpec::read(config, None)?;
    if config.is_gguf() {
        spec.pairs = Pairs::Interleaved;
    } else if config.architecture() == Some("mistral") {
        let window = read_window(config, Some(4096))?;
        spec.set_windows(config, window, |_| true)?;
    }
    Ok(spec)
}
