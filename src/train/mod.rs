//! The training loop: schedule, steps, events. What a run is made of comes from `run/`, what it leaves goes to `export/`.

mod event;
mod options;
mod schedule;
mod trainer;

pub use event::{Event, Listener, SampleMoment, Status};
pub use options::{
    BUILT_IN, EosOption, LayerList, OptimizerName, TargetList, TrainOptions, Warmup,
};
pub use schedule::{Schedule, Shape};
pub use trainer::{Outcome, Settings, Trainer};
