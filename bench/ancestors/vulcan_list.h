// SPDX-License-Identifier: MIT OR Apache-2.0
// A free list as a linked stack, in the three forms of Vulcan's history: under a mutex of the caller, by
// compare-and-swap on a plain pointer, and by compare-and-swap on a pointer with a tag that counts the
// changes.
//
// The plain form is wrong. Between a popper's look at "next" and its compare-and-swap, others may pop that
// block and the next one, and push the first again: the head is the same as before, the swap succeeds, and a
// block in use is on the list ("ABA"). The tag makes that swap fail. aba_test.c shows both.
#ifndef FREEHOLD_VULCAN_LIST_H
#define FREEHOLD_VULCAN_LIST_H

#include "ancestor.h"

#include <stdatomic.h>

enum list_kind { LIST_MUTEX, LIST_CAS_PLAIN, LIST_CAS_TAGGED };

// Plain: the address. Tagged: tag << 32 | block number + 1, blocks being counted in units of 16 bytes in the
// window.
typedef _Atomic(uint64_t) list_head;

static inline uint64_t list_name(void *block, bool tagged) {
    return tagged ? (uint64_t)((char *)block - window_base) / 16 + 1 : (uint64_t)(uintptr_t)block;
}

static inline void *list_block(uint64_t head, bool tagged) {
    if (!tagged) {
        return (void *)(uintptr_t)head;
    }
    uint32_t number = (uint32_t)head;
    return number == 0 ? NULL : window_base + ((size_t)number - 1) * 16;
}

// The link lies in the first word of a free block. It is read while its block may already be somebody else's,
// which is harmless as long as the value is then thrown away: that is what the tag is for.
static inline void list_push(list_head *head, void *block, enum list_kind kind) {
    bool tagged = kind == LIST_CAS_TAGGED;
    uint64_t name = list_name(block, tagged), old = atomic_load_explicit(head, memory_order_relaxed), next;
    _Atomic(uint64_t) *link = (_Atomic(uint64_t) *)block;
    if (kind == LIST_MUTEX) {
        atomic_store_explicit(link, old, memory_order_relaxed);
        atomic_store_explicit(head, name, memory_order_relaxed);
        return;
    }
    do {
        atomic_store_explicit(link, tagged ? (uint32_t)old : old, memory_order_relaxed);
        next = tagged ? ((old >> 32) + 1) << 32 | name : name;
    } while (!atomic_compare_exchange_weak_explicit(head, &old, next, memory_order_release, memory_order_relaxed));
}

static inline void *list_pop(list_head *head, enum list_kind kind) {
    bool tagged = kind == LIST_CAS_TAGGED;
    uint64_t old = atomic_load_explicit(head, memory_order_acquire), next;
    void *block;
    do {
        block = list_block(old, tagged);
        if (block == NULL) {
            return NULL;
        }
        uint64_t link = atomic_load_explicit((_Atomic(uint64_t) *)block, memory_order_relaxed);
        if (kind == LIST_MUTEX) {
            atomic_store_explicit(head, link, memory_order_relaxed);
            return block;
        }
        next = tagged ? ((old >> 32) + 1) << 32 | (uint32_t)link : link;
    } while (!atomic_compare_exchange_weak_explicit(head, &old, next, memory_order_acquire, memory_order_acquire));
    return block;
}

#endif
