// SPDX-License-Identifier: MIT OR Apache-2.0
// "Create X objects on N threads", the test of the X allocator (2013): C++ objects of a fixed size made by
// new and dropped by delete. The total is fixed and each thread does its part, so the time should fall with
// the threads as far as there are cores. Objects come one by one, in batches of 1,000 (8 of 1 MiB), or all
// before the first is dropped.
//
// The producer and consumer case that makes pooled X grow is `handover`, run on that ancestor.
// Arguments: size= 128, 1024 or 1m, total= objects, batch= (1: one by one, 0: all), threads=.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"x-128B-single-1t", "size=128 total=8000000 batch=1 threads=1", "full"},
    {"x-128B-single-8t", "size=128 total=8000000 batch=1 threads=8", "full"},
    {"x-128B-batch-1t", "size=128 total=8000000 batch=1000 threads=1", "quick"},
    {"x-128B-batch-2t", "size=128 total=8000000 batch=1000 threads=2", "quick"},
    {"x-128B-batch-4t", "size=128 total=8000000 batch=1000 threads=4", "full"},
    {"x-128B-batch-8t", "size=128 total=8000000 batch=1000 threads=8", "full"},
    {"x-128B-all-1t", "size=128 total=8000000 batch=0 threads=1", "full"},
    {"x-128B-all-2t", "size=128 total=8000000 batch=0 threads=2", "full"},
    {"x-128B-all-8t", "size=128 total=8000000 batch=0 threads=8", "full"},
    {"x-1KiB-single-2t", "size=1024 total=8000000 batch=1 threads=2", "full"},
    {"x-1KiB-batch-1t", "size=1024 total=8000000 batch=1000 threads=1", "full"},
    {"x-1KiB-batch-2t", "size=1024 total=8000000 batch=1000 threads=2", "full"},
    {"x-1KiB-batch-8t", "size=1024 total=8000000 batch=1000 threads=8", "full"},
    {"x-1MiB-single-1t", "size=1m total=20000 batch=1 threads=1", "full"},
    {"x-1MiB-batch-2t", "size=1m total=20000 batch=8 threads=2", "full"},
};

namespace {

// An object writes its first and last byte when it is made, and reads both when it goes.
template <size_t Size> class Object {
  public:
    explicit Object(uint8_t stamp) {
        bench_stamp(bytes_, Size, stamp);
    }
    ~Object() {
        (void)0;
    }
    uint64_t check(uint8_t stamp) const {
        return bench_verify(bytes_, Size, stamp);
    }

  private:
    uint8_t bytes_[Size];
};

struct Job {
    uint64_t each;
    uint32_t batch;
    void **slots;
};

template <size_t Size> void work(void *context, unsigned index) {
    const Job *job = static_cast<const Job *>(context);
    void **slots = job->slots + size_t{index} * job->batch;
    uint64_t sum = 0;
    for (uint64_t done = 0; done < job->each; done += job->batch) {
        for (uint32_t i = 0; i < job->batch; i++) {
            slots[i] = new Object<Size>(static_cast<uint8_t>(done + i));
        }
        for (uint32_t i = 0; i < job->batch; i++) {
            auto *object = static_cast<Object<Size> *>(slots[i]);
            sum += object->check(static_cast<uint8_t>(done + i));
            delete object;
        }
    }
    bench_tallies[index].sum = sum;
}

// The size has to be known to the compiler, so that it can call the sized delete as a real program does.
void (*work_for(uint64_t size))(void *, unsigned) {
    switch (size) {
    case 128:
        return work<128>;
    case 1024:
        return work<1024>;
    case 1 << 20:
        return work<(1 << 20)>;
    default:
        bench_fail("x_objects: size is 128, 1024 or 1m");
    }
}

} // namespace

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    unsigned threads = static_cast<unsigned>(bench_arg("threads", 1));
    uint64_t size = bench_arg("size", 128), total = bench_arg("total", 8000000), batch = bench_arg("batch", 1000);
    Job job{total / threads, static_cast<uint32_t>(batch), nullptr};
    if (batch == 0) {
        job.batch = static_cast<uint32_t>(job.each);
    }
    job.each -= job.each % job.batch;
    job.slots = static_cast<void **>(bench_map(size_t{job.batch} * threads * sizeof(void *)));
    bench_live(size * job.batch * threads);
    bench_plan plan = {};
    plan.work = work_for(size);
    plan.context = &job;
    bench_team_run(threads, &plan, job.each * threads);
    return bench_finish(bench_tally_sum(threads));
}
