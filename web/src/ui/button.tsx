import type { ComponentProps, ReactNode } from 'react';
import { LoaderCircle } from 'lucide-react';
import { cn } from '@/lib/utils';

const VARIANTS = {
  primary: 'bg-accent text-on-accent hover:bg-accent-hover border-transparent shadow-xs',
  secondary: 'bg-surface text-text border-line-strong hover:bg-sunken shadow-xs',
  ghost: 'bg-transparent text-text border-transparent hover:bg-sunken',
  danger: 'bg-surface text-bad border-line-strong hover:bg-bad-soft',
  dangerSolid: 'bg-bad text-on-accent border-transparent hover:opacity-90',
} as const;
const SIZES = {
  md: 'h-9 px-3.5 text-sm gap-2',
  sm: 'h-8 px-2.5 text-[13px] gap-1.5',
  icon: 'size-9 justify-center',
  iconSm: 'size-7 justify-center',
} as const;

export interface ButtonProps extends ComponentProps<'button'> {
  variant?: keyof typeof VARIANTS;
  size?: keyof typeof SIZES;
  busy?: boolean;
}

export function buttonClass(variant: keyof typeof VARIANTS = 'secondary', size: keyof typeof SIZES = 'md', extra?: string) {
  return cn(
    'inline-flex shrink-0 items-center justify-center rounded-md border font-medium whitespace-nowrap transition-colors select-none',
    'disabled:cursor-not-allowed disabled:opacity-50',
    VARIANTS[variant],
    SIZES[size],
    extra,
  );
}

export function Button({ variant = 'secondary', size = 'md', busy = false, className, disabled, children, type, ...rest }: ButtonProps) {
  return (
    <button
      type={type ?? 'button'}
      className={buttonClass(variant, size, className)}
      disabled={disabled || busy}
      aria-busy={busy || undefined}
      {...rest}
    >
      {busy && <LoaderCircle className="size-4 animate-spin" aria-hidden />}
      {children}
    </button>
  );
}

/** A button without text always has a name. */
export function IconButton({ label, children, size = 'icon', variant = 'ghost', ...rest }: Omit<ButtonProps, 'aria-label'> & { label: string; children: ReactNode }) {
  return (
    <Button aria-label={label} title={label} size={size} variant={variant} {...rest}>
      {children}
    </Button>
  );
}
