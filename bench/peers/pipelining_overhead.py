#!/usr/bin/env python3
"""What a pipeline step costs beyond its schedule, in torch.distributed.pipelining.

Stages wait a set time instead of computing, so that many of them run on few cores, and hand on a
tensor of a set size. Prints one JSON object a line for each configuration: the median of the
measured step, the makespan of the schedule with free communication, (N + D - 1)(F + B) for both
GPipe and 1F1B, and their ratio. Steps of all configurations are taken in turns, so that a
disturbance of the machine hits all of them.

    python3 bench/peers/pipelining_overhead.py --stages 4 --micros 4,8 --bytes 4096,4194304
"""

import argparse
import itertools
import json
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

import group

SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


class Wait(torch.autograd.Function):
    """Waits in forward and backward. What it returns lies ready, so it costs nothing else: as a
    view, since autograd copies a gradient that something else refers to."""

    @staticmethod
    def forward(ctx, input, weight, output, input_gradient, forward_s, backward_s):
        ctx.gradient, ctx.backward_s = input_gradient, backward_s
        time.sleep(forward_s)
        return output.detach()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(ctx.backward_s)
        return ctx.gradient.detach(), None, None, None, None, None


class Loss(torch.autograd.Function):
    """A loss that reads nothing of its input: its gradient lies ready too."""

    @staticmethod
    def forward(ctx, output, gradient):
        ctx.gradient = gradient
        return torch.zeros(())

    @staticmethod
    def backward(ctx, gradient):
        return ctx.gradient.detach(), None


class WaitingStage(torch.nn.Module):
    def __init__(self, message, gradient, forward_s, backward_s):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))  # so that the first stage has a backward
        self.fixed = (message, gradient, forward_s, backward_s)

    def forward(self, input):
        return Wait.apply(input, self.weight, *self.fixed)


class Configuration:
    """One schedule with N micro-batches and messages of a size, on this rank's stage."""

    def __init__(self, rank, stages, schedule, micros, message_bytes, options):
        self.names = {"schedule": schedule, "stages": stages, "micros": micros}
        self.names["bytes"] = message_bytes
        self.ideal_s = (micros + stages - 1) * (options.forward + options.backward)
        message = torch.zeros(1, message_bytes // 4)
        gradient = torch.zeros(1, message_bytes // 4)
        self.input = torch.zeros(micros, message_bytes // 4) if rank == 0 else None
        self.target = torch.zeros(micros, 1) if rank == stages - 1 else None
        stage = PipelineStage(
            WaitingStage(message, gradient, options.forward, options.backward),
            rank,
            stages,
            torch.device("cpu"),
            input_args=(message if rank == 0 else message.clone().requires_grad_(),),
            output_args=(message.clone().requires_grad_(),),
        )
        self.schedule = SCHEDULES[schedule](
            stage, micros, loss_fn=lambda output, target: Loss.apply(output, gradient),
            scale_grads=False,
        )
        self.seconds = []

    def step(self):
        inputs = () if self.input is None else (self.input,)
        dist.barrier()
        begin = time.monotonic()
        self.schedule.step(*inputs, target=self.target, return_outputs=False)
        self.seconds.append(group.span_of_step(begin, time.monotonic()))

    def report(self, warmup):
        measured_s = statistics.median(self.seconds[warmup:])
        return {
            "peer": "torch.distributed.pipelining",
            **self.names,
            "measured_s": measured_s,
            "ideal_s": self.ideal_s,
            "ratio": measured_s / self.ideal_s,
            "steps": len(self.seconds) - warmup,
        }


def measure(rank, stages, options):
    configurations = [
        Configuration(rank, stages, schedule, micros, message_bytes, options)
        for message_bytes, micros, schedule in itertools.product(
            options.bytes, options.micros, options.schedules
        )
    ]
    for _ in range(options.warmup + options.steps):
        for configuration in configurations:
            configuration.step()
    lines = []
    for configuration in configurations:
        lines.append(
            {**configuration.report(options.warmup), "forward_s": options.forward,
             "backward_s": options.backward}
        )
    return lines


def list_of(kind, check):
    def parse(text):
        values = [kind(part) for part in text.split(",")]
        if not all(check(value) for value in values):
            raise ValueError(text)
        return values

    return parse


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    positive = list_of(int, lambda value: value >= 1)
    parser.add_argument("--stages", type=int, default=4, help="D: stages, one process each")
    parser.add_argument("--micros", type=positive, default=[4], help="N, a list: 4,8,16")
    parser.add_argument("--bytes", type=list_of(int, lambda value: value >= 4 and value % 4 == 0),
                        default=[4096], help="of one message, a list of multiples of 4")
    parser.add_argument("--schedules", type=list_of(str, SCHEDULES.__contains__),
                        default=list(SCHEDULES), help="a list out of gpipe,1f1b")
    parser.add_argument("--forward", type=float, default=0.010, help="seconds of a forward")
    parser.add_argument("--backward", type=float, default=0.020, help="seconds of a backward")
    parser.add_argument("--steps", type=int, default=5, help="measured steps of each configuration")
    parser.add_argument("--warmup", type=int, default=2, help="steps before them")
    parser.add_argument("--timeout", type=float, default=300, help="seconds, for the whole run")
    options = parser.parse_args()
    if options.stages < 2 or options.steps < 1 or options.warmup < 0:
        parser.error("expected --stages of at least 2, --steps of 1, --warmup of 0")
    for micros in options.micros:
        if micros < options.stages and "1f1b" in options.schedules:
            parser.error(f"this library's 1f1b needs at least as many --micros as --stages "
                         f"({micros} < {options.stages})")
    return options


def main():
    options = parse_options()
    for line in group.run(options.stages, measure, options, options.timeout):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
