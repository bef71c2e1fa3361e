import { useId, useState, type ComponentProps, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { Select as RadixSelect, Switch as RadixSwitch } from 'radix-ui';
import { Check, ChevronDown, Eye, EyeOff } from 'lucide-react';
import { cn } from '@/lib/utils';

export function Input({ className, ...rest }: ComponentProps<'input'>) {
  return <input className={cn('control h-9', className)} {...rest} />;
}

export function Textarea({ className, ...rest }: ComponentProps<'textarea'>) {
  return <textarea className={cn('control min-h-20', className)} {...rest} />;
}

export function PasswordInput({ className, ...rest }: ComponentProps<'input'>) {
  const { t } = useTranslation();
  const [shown, setShown] = useState(false);
  const Icon = shown ? EyeOff : Eye;
  return (
    <div className="relative">
      <Input type={shown ? 'text' : 'password'} className={cn('pr-10', className)} {...rest} />
      <button
        type="button"
        className="absolute top-1/2 right-1.5 -translate-y-1/2 rounded p-1.5 text-muted hover:text-text"
        aria-label={t(shown ? 'common.hideValue' : 'common.showValue')}
        onClick={() => setShown(!shown)}
      >
        <Icon className="size-4" aria-hidden />
      </button>
    </div>
  );
}

export interface FieldControl {
  id: string;
  'aria-describedby'?: string;
  'aria-invalid'?: boolean;
  'aria-required'?: boolean;
}

/** Label, hint and error around one control, tied together for assistive technology. */
export function Field({
  label, hint, error, required, trailing, className, children,
}: {
  label: ReactNode;
  hint?: ReactNode;
  error?: ReactNode;
  required?: boolean;
  trailing?: ReactNode;
  className?: string;
  children: (control: FieldControl) => ReactNode;
}) {
  const id = useId();
  const described = [hint ? `${id}-hint` : '', error ? `${id}-error` : ''].filter(Boolean).join(' ') || undefined;
  return (
    <div className={cn('flex flex-col gap-1.5', className)}>
      <div className="flex items-center gap-2">
        <label htmlFor={id} className="text-sm font-medium">
          {label}
          {required && (
            <span className="ml-0.5 text-bad" aria-hidden>
              *
            </span>
          )}
        </label>
        {trailing}
      </div>
      {children({ id, 'aria-describedby': described, 'aria-invalid': error ? true : undefined, 'aria-required': required || undefined })}
      {hint && (
        <p id={`${id}-hint`} className="text-[13px] leading-snug text-muted">
          {hint}
        </p>
      )}
      {error && (
        <p id={`${id}-error`} role="alert" className="text-[13px] text-bad">
          {error}
        </p>
      )}
    </div>
  );
}

export function Switch({ className, ...rest }: ComponentProps<typeof RadixSwitch.Root>) {
  return (
    <RadixSwitch.Root
      className={cn(
        'relative inline-flex h-5.5 w-10 shrink-0 items-center rounded-full border border-transparent bg-line-strong transition-colors',
        'data-[state=checked]:bg-accent disabled:cursor-not-allowed disabled:opacity-50',
        className,
      )}
      {...rest}
    >
      <RadixSwitch.Thumb className="block size-4 translate-x-0.5 rounded-full bg-white shadow transition-transform data-[state=checked]:translate-x-[1.2rem] dark:bg-surface" />
    </RadixSwitch.Root>
  );
}

export interface Option {
  value: string;
  label: ReactNode;
  disabled?: boolean;
}

export function Select({
  value, onChange, options, placeholder, disabled, className, size = 'md', ...control
}: {
  value: string;
  onChange: (value: string) => void;
  options: Option[];
  placeholder?: string;
  disabled?: boolean;
  className?: string;
  size?: 'md' | 'sm';
  id?: string;
  'aria-label'?: string;
  'aria-describedby'?: string;
  'aria-invalid'?: boolean;
  'aria-required'?: boolean;
}) {
  // Radix keeps the empty string for "nothing chosen".
  const known = options.some((option) => option.value === value);
  return (
    <RadixSelect.Root value={known ? value : ''} onValueChange={onChange} disabled={disabled}>
      <RadixSelect.Trigger
        className={cn('control flex items-center justify-between gap-2 text-left', size === 'sm' ? 'h-8 py-1 text-[13px]' : 'h-9', className)}
        {...control}
      >
        <span className="min-w-0 truncate">
          <RadixSelect.Value placeholder={<span className="text-muted">{value && !known ? value : placeholder}</span>} />
        </span>
        <RadixSelect.Icon>
          <ChevronDown className="size-4 text-muted" aria-hidden />
        </RadixSelect.Icon>
      </RadixSelect.Trigger>
      <RadixSelect.Portal>
        <RadixSelect.Content
          position="popper"
          sideOffset={4}
          className="z-60 max-h-(--radix-select-content-available-height) min-w-(--radix-select-trigger-width) max-w-[min(28rem,92vw)] animate-pop overflow-hidden rounded-lg border bg-surface p-1 shadow-pop"
        >
          <RadixSelect.Viewport>
            {options.map((option) => (
              <RadixSelect.Item
                key={option.value}
                value={option.value}
                disabled={option.disabled}
                className="flex cursor-pointer items-center justify-between gap-3 rounded-md px-2.5 py-1.5 text-sm outline-none select-none data-disabled:cursor-not-allowed data-disabled:opacity-50 data-highlighted:bg-sunken"
              >
                <RadixSelect.ItemText>{option.label}</RadixSelect.ItemText>
                <RadixSelect.ItemIndicator>
                  <Check className="size-4 text-accent-text" aria-hidden />
                </RadixSelect.ItemIndicator>
              </RadixSelect.Item>
            ))}
          </RadixSelect.Viewport>
        </RadixSelect.Content>
      </RadixSelect.Portal>
    </RadixSelect.Root>
  );
}
