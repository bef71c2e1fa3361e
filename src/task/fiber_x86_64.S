/* x86-64 (System V): switches stacks. Saves what a callee must keep: rbx, rbp, r12 to r15, and the
 * control bits of SSE and x87. */
#if defined(__x86_64__) && !defined(PARLEY_UCONTEXT)
    .text

/* void fiber_swap(void **save_sp, void *load_sp) */
    .globl  fiber_swap
    .hidden fiber_swap
    .type   fiber_swap, @function
    .p2align 4
fiber_swap:
    .cfi_startproc
    endbr64
    pushq   %rbp
    pushq   %rbx
    pushq   %r12
    pushq   %r13
    pushq   %r14
    pushq   %r15
    subq    $8, %rsp
    stmxcsr (%rsp)
    fnstcw  4(%rsp)
    movq    %rsp, (%rdi)
    movq    %rsi, %rsp
    ldmxcsr (%rsp)
    fldcw   4(%rsp)
    addq    $8, %rsp
    popq    %r15
    popq    %r14
    popq    %r13
    popq    %r12
    popq    %rbx
    popq    %rbp
    /* Not ret: the return predictor would expect the caller on the other stack each time. */
    popq    %rcx
    jmp     *%rcx
    .cfi_endproc
    .size   fiber_swap, . - fiber_swap

/* First return address of a new fiber: calls r13(r12), which never returns. */
    .globl  fiber_first
    .hidden fiber_first
    .type   fiber_first, @function
    .p2align 4
fiber_first:
    .cfi_startproc
    .cfi_undefined rip
    endbr64
    movq    %r12, %rdi
    call    *%r13
    ud2
    .cfi_endproc
    .size   fiber_first, . - fiber_first
#endif
    .section .note.GNU-stack, "", %progbits
