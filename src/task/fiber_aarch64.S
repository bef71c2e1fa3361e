/* AArch64 (AAPCS64): switches stacks. Saves what a callee must keep: x19 to x30 and d8 to d15. */
#if defined(__aarch64__) && !defined(PARLEY_UCONTEXT)
    .text

/* void fiber_swap(void **save_sp, void *load_sp) */
    .globl  fiber_swap
    .hidden fiber_swap
    .type   fiber_swap, %function
    .p2align 4
fiber_swap:
    .cfi_startproc
    hint    #34 /* bti c */
    sub     sp, sp, #160
    stp     x19, x20, [sp, #0]
    stp     x21, x22, [sp, #16]
    stp     x23, x24, [sp, #32]
    stp     x25, x26, [sp, #48]
    stp     x27, x28, [sp, #64]
    stp     x29, x30, [sp, #80]
    stp     d8, d9, [sp, #96]
    stp     d10, d11, [sp, #112]
    stp     d12, d13, [sp, #128]
    stp     d14, d15, [sp, #144]
    mov     x9, sp
    str     x9, [x0]
    mov     sp, x1
    ldp     x19, x20, [sp, #0]
    ldp     x21, x22, [sp, #16]
    ldp     x23, x24, [sp, #32]
    ldp     x25, x26, [sp, #48]
    ldp     x27, x28, [sp, #64]
    ldp     x29, x30, [sp, #80]
    ldp     d8, d9, [sp, #96]
    ldp     d10, d11, [sp, #112]
    ldp     d12, d13, [sp, #128]
    ldp     d14, d15, [sp, #144]
    add     sp, sp, #160
    ret
    .cfi_endproc
    .size   fiber_swap, . - fiber_swap

/* First return address of a new fiber: calls x20(x19), which never returns. */
    .globl  fiber_first
    .hidden fiber_first
    .type   fiber_first, %function
    .p2align 4
fiber_first:
    .cfi_startproc
    .cfi_undefined x30
    hint    #36 /* bti j */
    mov     x29, xzr
    mov     x30, xzr
    mov     x0, x19
    blr     x20
    brk     #1
    .cfi_endproc
    .size   fiber_first, . - fiber_first
#endif
    .section .note.GNU-stack, "", %progbits
