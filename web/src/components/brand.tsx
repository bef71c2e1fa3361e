import { cn } from '@/lib/utils';

export function Logo({ className }: { className?: string }) {
  return (
    <svg viewBox="0 0 32 32" className={cn('size-8', className)} aria-hidden>
      <rect width="32" height="32" rx="8" fill="#0f6b86" />
      <path d="M8 9.500A2.500 2.500 0 0 1 10.500 7h8A2.500 2.500 0 0 1 21 9.500v4a2.500 2.500 0 0 1-2.500 2.500H13l-3.300 2.800c-.4.4-1 .1-1-.5V16A2.400 2.400 0 0 1 8 14z" fill="#fff" />
      <path d="M23 12.200c1.200.3 2 1.300 2 2.500v4.600c0 .9-.4 1.600-1 2.100v2.700c0 .6-.7.9-1.100.5L20 22h-4.800c-1 0-1.900-.6-2.300-1.400l1-.9h5.600A3.500 3.500 0 0 0 23 16.200z" fill="#9fdcec" />
    </svg>
  );
}

export function Wordmark({ className }: { className?: string }) {
  return (
    <span className={cn('flex items-center gap-2.5', className)}>
      <Logo className="size-7" />
      <span className="text-[17px] font-semibold tracking-tight">Parley</span>
    </span>
  );
}
