// Goes on from a checkpoint: finds it, proves it whole and of this run, and fills a trainer with
// it, whatever the layouts of the run that wrote it and of this one.
//
// All ranks call it together, with the same arguments; nothing is shared between them but the files
// and the transport. Each rank checks a part of the files and reads its own parameters alone.
#pragma once

#include <string>

#include "chimera/job/train_plan.h"
#include "chimera/train/checkpointer.h"
#include "chimera/train/trainer.h"
#include "chimera/transport/transport.h"

namespace chimera {

// `wanted` is the folder of a step, or "latest": the newest whole one of train.checkpoint_folder;
// damaged ones are passed over, each with a line to options.tell. Settings that differ and change
// the training are told, too. Throws Error (kIo, kData, kUsage): nothing to go on from, damaged, of
// another model, or of a run on other data or in another order.
CheckpointSource resume(const std::string& wanted, const TrainPlan& plan, Transport& transport,
                        Trainer& trainer, const CheckpointOptions& options);

}  // namespace chimera
