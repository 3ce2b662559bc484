import amvTrain from "./index.js";

export const {
  train,
  data,
  generate,
  evaluate,
  exportAdapter,
  merge,
  verify,
  pull,
  plan,
  TermuxTrainer,
  inspect,
  models,
  devices,
  info,
  AmvTrainError,
  version,
} = amvTrain;
