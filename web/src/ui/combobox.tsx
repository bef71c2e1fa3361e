import { useId, useMemo, useRef, useState, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { Popover as RadixPopover } from 'radix-ui';
import { Check, ChevronDown, Search } from 'lucide-react';
import { cn } from '@/lib/utils';

export interface ComboItem {
  value: string;
  label: string;
  group?: string;
  /** Further words that a search finds the item by. */
  search?: string;
  icon?: ReactNode;
  extra?: ReactNode;
  disabled?: boolean;
}

/** A searchable list in a popup. Search clears on close; Escape closes only the popup. */
export function Combobox({
  value, onChange, items, placeholder, emptyText, disabled, footer, className, ...control
}: {
  value: string;
  onChange: (value: string) => void;
  items: ComboItem[];
  placeholder?: string;
  emptyText?: ReactNode;
  disabled?: boolean;
  footer?: ReactNode;
  className?: string;
  id?: string;
  'aria-label'?: string;
  'aria-describedby'?: string;
  'aria-invalid'?: boolean;
  'aria-required'?: boolean;
}) {
  const { t } = useTranslation();
  const [open, setOpen] = useState(false);
  const [query, setQuery] = useState('');
  const [active, setActive] = useState(0);
  const listId = useId();
  const listRef = useRef<HTMLDivElement>(null);
  const selected = items.find((item) => item.value === value);

  const shown = useMemo(() => {
    const words = query.trim().toLowerCase().split(/\s+/).filter(Boolean);
    return items.filter((item) => {
      const text = `${item.label} ${item.value} ${item.search ?? ''}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
  }, [items, query]);
  const groups = useMemo(() => {
    const map = new Map<string, { item: ComboItem; index: number }[]>();
    shown.forEach((item, index) => {
      const key = item.group ?? '';
      map.set(key, [...(map.get(key) ?? []), { item, index }]);
    });
    return [...map];
  }, [shown]);
  // Arrow keys follow what is seen, and grouping changes the order.
  const order = useMemo(() => groups.flatMap(([, rows]) => rows.map((row) => row.item)), [groups]);

  const change = (next: boolean) => {
    setOpen(next);
    setQuery('');
    setActive(Math.max(0, order.findIndex((item) => item.value === value)));
  };
  const choose = (item: ComboItem | undefined) => {
    if (!item || item.disabled) return;
    onChange(item.value);
    change(false);
  };
  const move = (step: number) => {
    if (order.length === 0) return;
    const next = (active + step + order.length) % order.length;
    setActive(next);
    listRef.current?.querySelector(`[data-index="${next}"]`)?.scrollIntoView({ block: 'nearest' });
  };

  return (
    <RadixPopover.Root open={open} onOpenChange={change}>
      <RadixPopover.Trigger asChild>
        <button
          type="button"
          role="combobox"
          aria-expanded={open}
          aria-controls={listId}
          disabled={disabled}
          className={cn('control flex h-9 items-center justify-between gap-2 text-left', className)}
          {...control}
        >
          <span className="flex min-w-0 items-center gap-2">
            {selected?.icon}
            <span className={cn('truncate', !selected && 'text-muted')}>{selected?.label ?? (value || placeholder)}</span>
          </span>
          <ChevronDown className="size-4 shrink-0 text-muted" aria-hidden />
        </button>
      </RadixPopover.Trigger>
      <RadixPopover.Portal>
        <RadixPopover.Content
          align="start"
          sideOffset={4}
          collisionPadding={8}
          // The list scrolls inside a dialog that would otherwise swallow the wheel.
          onWheel={(event) => event.stopPropagation()}
          onTouchMove={(event) => event.stopPropagation()}
          onEscapeKeyDown={(event) => event.stopPropagation()}
          className="z-60 flex max-h-[min(24rem,var(--radix-popover-content-available-height))] w-(--radix-popover-trigger-width) min-w-64 animate-pop flex-col overflow-hidden rounded-lg border bg-surface shadow-pop focus:outline-none"
        >
          <div className="flex items-center gap-2 border-b px-3">
            <Search className="size-4 text-muted" aria-hidden />
            <input
              autoFocus
              role="searchbox"
              aria-label={t('common.search')}
              aria-controls={listId}
              aria-activedescendant={order[active] ? `${listId}-${active}` : undefined}
              className="h-9 w-full bg-transparent text-sm focus:outline-none"
              placeholder={t('common.search')}
              value={query}
              onChange={(event) => {
                setQuery(event.target.value);
                setActive(0);
              }}
              onKeyDown={(event) => {
                if (event.key === 'ArrowDown') move(1);
                else if (event.key === 'ArrowUp') move(-1);
                else if (event.key === 'Enter') choose(order[active]);
                else return;
                event.preventDefault();
              }}
            />
          </div>
          <div ref={listRef} id={listId} role="listbox" className="min-h-0 flex-1 overflow-y-auto p-1">
            {order.length === 0 && <p className="px-3 py-4 text-center text-sm text-muted">{emptyText ?? t('common.nothingFound')}</p>}
            {groups.map(([group, rows]) => (
              <div key={group} role="group" aria-label={group || undefined}>
                {group && <div className="px-2.5 pt-2 pb-1 text-xs font-medium text-muted">{group}</div>}
                {rows.map(({ item }) => {
                  const index = order.indexOf(item);
                  return (
                    <div
                      key={item.value}
                      id={`${listId}-${index}`}
                      data-index={index}
                      data-value={item.value}
                      role="option"
                      aria-selected={item.value === value}
                      aria-disabled={item.disabled || undefined}
                      onMouseMove={() => setActive(index)}
                      onClick={() => choose(item)}
                      className={cn(
                        'flex cursor-pointer items-center gap-2 rounded-md px-2.5 py-1.5 text-sm',
                        index === active && 'bg-sunken',
                        item.disabled && 'cursor-not-allowed opacity-50',
                      )}
                    >
                      {item.icon}
                      <span className="min-w-0 flex-1 truncate">{item.label}</span>
                      {item.extra}
                      {item.value === value && <Check className="size-4 shrink-0 text-accent-text" aria-hidden />}
                    </div>
                  );
                })}
              </div>
            ))}
          </div>
          {footer && <div className="border-t p-1">{footer}</div>}
        </RadixPopover.Content>
      </RadixPopover.Portal>
    </RadixPopover.Root>
  );
}
