import { useState, type ComponentProps, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { AlertDialog, Dialog as RadixDialog, DropdownMenu, Popover as RadixPopover, Tooltip as RadixTooltip } from 'radix-ui';
import { X } from 'lucide-react';
import { errorText } from '@/lib/errors';
import { cn } from '@/lib/utils';
import { Button, IconButton, type ButtonProps } from './button';
import { Notice } from './feedback';

const SCRIM = 'fixed inset-0 z-50 bg-black/40 animate-fade dark:bg-black/60';

export function Dialog({
  open, onOpenChange, title, description, children, footer, className, bodyClassName, hideTitle, ...events
}: {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  title: string;
  description?: ReactNode;
  children: ReactNode;
  footer?: ReactNode;
  className?: string;
  bodyClassName?: string;
  hideTitle?: boolean;
} & Pick<ComponentProps<typeof RadixDialog.Content>, 'onEscapeKeyDown' | 'onInteractOutside'>) {
  const { t } = useTranslation();
  return (
    <RadixDialog.Root open={open} onOpenChange={onOpenChange}>
      <RadixDialog.Portal>
        <RadixDialog.Overlay className={SCRIM} />
        <RadixDialog.Content
          className={cn(
            'fixed top-1/2 left-1/2 z-50 flex max-h-[min(92dvh,60rem)] w-[min(34rem,calc(100vw-1.5rem))] -translate-x-1/2 -translate-y-1/2 animate-fade flex-col overflow-hidden rounded-xl border bg-surface shadow-pop focus:outline-none',
            className,
          )}
          {...(description ? {} : { 'aria-describedby': undefined })}
          {...events}
        >
          <div className={cn('flex items-start justify-between gap-4 border-b px-5 py-3.5', hideTitle && 'sr-only')}>
            <div className="min-w-0">
              <RadixDialog.Title className="text-base font-semibold">{title}</RadixDialog.Title>
              {description && <RadixDialog.Description className="mt-0.5 text-[13px] text-muted">{description}</RadixDialog.Description>}
            </div>
            <RadixDialog.Close asChild>
              <IconButton label={t('common.close')} size="iconSm">
                <X className="size-4" aria-hidden />
              </IconButton>
            </RadixDialog.Close>
          </div>
          <div className={cn('min-h-0 flex-1 overflow-y-auto px-5 py-4', bodyClassName)}>{children}</div>
          {footer && <div className="flex flex-wrap items-center justify-end gap-2 border-t bg-bg px-5 py-3">{footer}</div>}
        </RadixDialog.Content>
      </RadixDialog.Portal>
    </RadixDialog.Root>
  );
}

/** Asks before something is lost. A failure stays in the dialog, next to the button that can try again. */
export function Confirm({
  open, onOpenChange, title, description, action, onConfirm, danger = true,
}: {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  title: string;
  description: ReactNode;
  action: string;
  onConfirm: () => Promise<unknown> | void;
  danger?: boolean;
}) {
  const { t } = useTranslation();
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const run = async () => {
    setBusy(true);
    setFailure(null);
    try {
      await onConfirm();
      onOpenChange(false);
    } catch (error) {
      setFailure(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <AlertDialog.Root
      open={open}
      onOpenChange={(next) => {
        if (busy) return;
        setFailure(null);
        onOpenChange(next);
      }}
    >
      <AlertDialog.Portal>
        <AlertDialog.Overlay className={cn(SCRIM, 'z-60')} />
        <AlertDialog.Content className="fixed top-1/2 left-1/2 z-60 w-[min(27rem,calc(100vw-1.5rem))] -translate-x-1/2 -translate-y-1/2 animate-fade rounded-xl border bg-surface p-5 shadow-pop">
          <AlertDialog.Title className="text-base font-semibold">{title}</AlertDialog.Title>
          <AlertDialog.Description asChild>
            <div className="mt-1.5 text-sm text-muted">{description}</div>
          </AlertDialog.Description>
          {failure !== null && <Notice tone="bad" className="mt-3">{errorText(failure)}</Notice>}
          <div className="mt-5 flex justify-end gap-2">
            <AlertDialog.Cancel asChild>
              <Button disabled={busy}>{t('common.cancel')}</Button>
            </AlertDialog.Cancel>
            <Button variant={danger ? 'dangerSolid' : 'primary'} busy={busy} onClick={run}>
              {action}
            </Button>
          </div>
        </AlertDialog.Content>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}

export function Tooltip({ text, children, align = 'start' }: { text: ReactNode; children: ReactNode; align?: 'start' | 'center' | 'end' }) {
  return (
    <RadixTooltip.Root>
      <RadixTooltip.Trigger asChild>{children}</RadixTooltip.Trigger>
      <RadixTooltip.Portal>
        <RadixTooltip.Content
          align={align}
          sideOffset={6}
          className="z-60 max-w-72 animate-pop rounded-md bg-text px-2.5 py-1.5 text-left text-[13px] leading-snug text-bg shadow-pop"
        >
          {text}
        </RadixTooltip.Content>
      </RadixTooltip.Portal>
    </RadixTooltip.Root>
  );
}
export const TooltipProvider = RadixTooltip.Provider;

/** A disabled button that can still be reached and says why it is disabled. */
export function GatedButton({ reason, label, ...rest }: ButtonProps & { reason: string | null; label: string }) {
  if (!reason) return <Button aria-label={label} {...rest} />;
  return (
    <Tooltip text={reason}>
      <span tabIndex={0} role="button" aria-disabled="true" aria-label={`${label}: ${reason}`} className="inline-flex rounded-md">
        <Button {...rest} disabled tabIndex={-1} aria-hidden className={cn('pointer-events-none', rest.className)} />
      </span>
    </Tooltip>
  );
}

export function Popover({ trigger, children, align = 'start', className, open, onOpenChange }: {
  trigger: ReactNode;
  children: ReactNode;
  align?: 'start' | 'center' | 'end';
  className?: string;
  open?: boolean;
  onOpenChange?: (open: boolean) => void;
}) {
  return (
    <RadixPopover.Root open={open} onOpenChange={onOpenChange}>
      <RadixPopover.Trigger asChild>{trigger}</RadixPopover.Trigger>
      <RadixPopover.Portal>
        <RadixPopover.Content
          align={align}
          sideOffset={6}
          collisionPadding={8}
          className={cn('z-60 animate-pop rounded-lg border bg-surface p-3 shadow-pop focus:outline-none', className)}
        >
          {children}
        </RadixPopover.Content>
      </RadixPopover.Portal>
    </RadixPopover.Root>
  );
}

const MENU = 'z-60 min-w-48 max-w-72 animate-pop rounded-lg border bg-surface p-1 shadow-pop';
export const MENU_ITEM =
  'flex cursor-pointer items-center gap-2.5 rounded-md px-2.5 py-1.5 text-sm outline-none select-none data-highlighted:bg-sunken data-disabled:opacity-50 [&_svg]:size-4 [&_svg]:text-muted';

export function Menu({ trigger, children, align = 'end', side }: { trigger: ReactNode; children: ReactNode; align?: 'start' | 'end'; side?: 'top' | 'bottom' | 'right' }) {
  return (
    <DropdownMenu.Root>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className={MENU} align={align} side={side} sideOffset={6} collisionPadding={8}>
          {children}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}
export function MenuItem(props: ComponentProps<typeof DropdownMenu.Item>) {
  return <DropdownMenu.Item {...props} className={cn(MENU_ITEM, props.className)} />;
}
export function MenuRadioItem(props: ComponentProps<typeof DropdownMenu.RadioItem>) {
  return (
    <DropdownMenu.RadioItem {...props} className={cn(MENU_ITEM, 'justify-between', props.className)}>
      {props.children}
      <DropdownMenu.ItemIndicator className="size-1.5 rounded-full bg-accent" />
    </DropdownMenu.RadioItem>
  );
}
export function MenuSeparator() {
  return <DropdownMenu.Separator className="my-1 h-px bg-line" />;
}
export const MenuRadioGroup = DropdownMenu.RadioGroup;
export const MenuLabel = ({ children }: { children: ReactNode }) => (
  <DropdownMenu.Label className="px-2.5 py-1 text-xs font-medium text-muted">{children}</DropdownMenu.Label>
);
