import amvTrain from "./index.js";

export const {
  train,
  data,
  TermuxTrainer,
  inspect,
  models,
  devices,
  info,
  AmvTrainError,
  version,
} = amvTrain;
