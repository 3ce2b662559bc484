// The same declarations reach an ES module.

import { AmvTrainError, TermuxTrainer, train, type TrainRun } from "amv-train";

export const run: TrainRun = train({ output: "x/" });
export const trainer: TermuxTrainer = new TermuxTrainer();
export const code: AmvTrainError["code"] = "USAGE";
