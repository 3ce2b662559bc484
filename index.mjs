import amvTrain from "./index.js";

export const {
  train,
  TermuxTrainer,
  inspect,
  models,
  devices,
  info,
  AmvTrainError,
  version,
} = amvTrain;
