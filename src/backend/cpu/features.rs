//! The instruction sets this processor has, found at run time. `AMV_CPU` allows fewer, so that every path can be tested.

use std::sync::OnceLock;

use crate::error;
use crate::error::Result;

macro_rules! features {
    ($($(#[$arch:meta])? $feature:ident $name:literal $detected:expr;)*) => {
        /// An instruction set that a loop or a product can be compiled for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Feature {
            $($feature,)*
        }

        impl Feature {
            pub const ALL: &[Feature] = &[$(Feature::$feature,)*];

            /// As `AMV_CPU` and `amv-train info` write it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Feature::$feature => $name,)*
                }
            }

            fn detected(self) -> bool {
                match self {
                    $(Feature::$feature => $detected,)*
                }
            }
        }
    };
}

macro_rules! x86 {
    ($($name:tt)*) => {{
        #[cfg(target_arch = "x86_64")]
        {
            $(std::arch::is_x86_feature_detected!($name))&&*
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            false
        }
    }};
}

macro_rules! arm {
    ($($name:tt)*) => {{
        #[cfg(target_arch = "aarch64")]
        {
            $(std::arch::is_aarch64_feature_detected!($name))&&*
        }
        #[cfg(not(target_arch = "aarch64"))]
        {
            false
        }
    }};
}

features! {
    Avx2 "avx2" x86!("avx2" "fma" "f16c");
    Avx512 "avx512" x86!("avx512f" "avx512bw" "avx512dq" "avx512vl" "avx2" "fma" "f16c");
    Avx512Bf16 "avx512_bf16" x86!("avx512bf16" "avx512f");
    Avx512Vnni "avx512_vnni" x86!("avx512vnni" "avx512f");
    Neon "neon" arm!("neon");
    DotProd "dotprod" arm!("dotprod");
    I8mm "i8mm" arm!("i8mm");
    Bf16 "bf16" arm!("bf16");
}

/// The variable that allows fewer instruction sets than there are: their names with commas between, or `plain` for none.
pub const VARIABLE: &str = "AMV_CPU";

/// What `AMV_CPU` allows; `None` without it. Names that are no feature are left to [`check`].
fn allowed() -> Option<Vec<String>> {
    std::env::var(VARIABLE).ok().map(|text| names(&text))
}

fn names(text: &str) -> Vec<String> {
    let names = text.split(',').map(|name| name.trim().to_lowercase());
    names.filter(|name| !name.is_empty()).collect()
}

/// An error when `AMV_CPU` names what is no instruction set.
pub fn check() -> Result<()> {
    let known = |name: &String| {
        name == "plain" || Feature::ALL.iter().any(|feature| feature.name() == name)
    };
    match allowed()
        .unwrap_or_default()
        .into_iter()
        .find(|name| !known(name))
    {
        None => Ok(()),
        Some(name) => {
            let names: Vec<_> = Feature::ALL.iter().map(|feature| feature.name()).collect();
            Err(error!(
                Usage,
                "{VARIABLE} names {name}, which is no instruction set"
            )
            .hint(format!(
                "name those to use, with commas between: plain, {}",
                names.join(", ")
            )))
        }
    }
}

impl Feature {
    /// Whether this processor has it and `AMV_CPU` allows it.
    pub fn present(self) -> bool {
        static PRESENT: OnceLock<Vec<bool>> = OnceLock::new();
        let present = PRESENT.get_or_init(|| {
            let allowed = allowed();
            let may = |name: &str| {
                let listed = |list: &Vec<String>| list.iter().any(|allowed| allowed == name);
                allowed.as_ref().is_none_or(listed)
            };
            let usable = |feature: &Feature| feature.detected() && may(feature.name());
            Feature::ALL.iter().map(usable).collect()
        });
        present[self as usize]
    }
}

/// The names of the instruction sets that are present.
pub fn features() -> Vec<&'static str> {
    let present = Feature::ALL.iter().filter(|feature| feature.present());
    present.map(|feature| feature.name()).collect()
}

/// Runs `work` compiled for the longest vectors there are, as far as the compiler inlines it: for loops given as closures.
/// Where speed hangs on it, [`vectorised!`] is certain.
#[inline(always)]
pub fn vectorise<T>(work: impl FnOnce() -> T) -> T {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
        fn avx512<T>(work: impl FnOnce() -> T) -> T {
            work()
        }
        #[target_feature(enable = "avx2,fma,f16c")]
        fn avx2<T>(work: impl FnOnce() -> T) -> T {
            work()
        }
        // Safety: only where the processor has what the function was compiled for.
        if Feature::Avx512.present() {
            return unsafe { avx512(work) };
        }
        if Feature::Avx2.present() {
            return unsafe { avx2(work) };
        }
    }
    work()
}

/// Compiles a plain loop for the vector lengths of the architecture; the best that is present runs. The operations and
/// their order are those of the source in every case, so are the results; except those of `L`, the [`Lanes`] of the
/// instruction set, which a loop may use by that name.
///
/// [`Lanes`]: super::lanes::Lanes
macro_rules! vectorised {
    (
        $(#[$doc:meta])*
        $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $out:ty)? $body:block
    ) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name($($arg: $type),*) $(-> $out)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn plain<L: $crate::backend::cpu::lanes::Lanes>($($arg: $type),*) $(-> $out)? $body
            #[cfg(target_arch = "x86_64")]
            {
                use $crate::backend::cpu::{Feature, lanes};
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
                #[allow(clippy::too_many_arguments)]
                fn avx512($($arg: $type),*) $(-> $out)? {
                    plain::<lanes::Avx512>($($arg),*)
                }
                #[target_feature(enable = "avx2,fma,f16c")]
                #[allow(clippy::too_many_arguments)]
                fn avx2($($arg: $type),*) $(-> $out)? {
                    plain::<lanes::Avx2>($($arg),*)
                }
                // Safety: only where the processor has what the function was compiled for.
                if Feature::Avx512.present() {
                    return unsafe { avx512($($arg),*) };
                }
                if Feature::Avx2.present() {
                    return unsafe { avx2($($arg),*) };
                }
            }
            plain::<$crate::backend::cpu::lanes::Baseline>($($arg),*)
        }
    };
}
pub(crate) use vectorised;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_case_with_blanks() {
        assert_eq!(names(" Neon, DOTPROD,"), ["neon", "dotprod"]);
        assert_eq!(names(""), [""; 0]);
    }

    #[test]
    fn nothing_is_present_that_the_variable_does_not_name() {
        let Some(allowed) = allowed() else { return };
        for name in features() {
            assert!(
                allowed.iter().any(|allowed| allowed == name),
                "{name} beside {allowed:?}"
            );
        }
    }

    #[test]
    fn every_processor_of_an_architecture_has_its_baseline() {
        assert!(!cfg!(target_arch = "aarch64") || Feature::Neon.detected());
        let foreign = match std::env::consts::ARCH {
            "x86_64" => Feature::Neon,
            _ => Feature::Avx2,
        };
        assert!(!foreign.detected());
    }
}
