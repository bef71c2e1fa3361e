import { useTranslation } from 'react-i18next';
import { Check } from 'lucide-react';
import { AdapterIcon } from '@/components/adapter-icon';
import { pick } from '@/lib/i18n';
import { groupAdapters } from '@/lib/platform';
import type { Adapter } from '@/lib/types';
import { cn } from '@/lib/utils';

/** Cards of platforms, one choice over all groups. */
export function AdapterPicker({ adapters, value, onChange, label }: {
  adapters: Adapter[];
  value: string;
  onChange: (name: string) => void;
  label: string;
}) {
  const { t, i18n } = useTranslation();
  return (
    <div role="radiogroup" aria-label={label} className="flex flex-col gap-5">
      {groupAdapters(adapters, i18n.language).map((group) => (
        <div key={group.category || 'rest'}>
          {group.category && <p className="mb-2 text-[13px] font-medium text-muted">{t(`adapters.category.${group.category}`)}</p>}
          <div className="grid gap-2 sm:grid-cols-2 xl:grid-cols-3">
            {group.adapters.map((adapter) => {
              const chosen = adapter.name === value;
              return (
                <button
                  key={adapter.name}
                  type="button"
                  role="radio"
                  aria-checked={chosen}
                  data-adapter={adapter.name}
                  onClick={() => onChange(adapter.name)}
                  className={cn(
                    'relative flex items-start gap-3 rounded-lg border p-3 text-left transition-colors',
                    chosen ? 'border-accent bg-accent-soft' : 'bg-surface hover:border-line-strong hover:bg-sunken',
                  )}
                >
                  <AdapterIcon name={adapter.name} className="size-7" />
                  <span className="min-w-0 flex-1 pr-4">
                    <span className="block truncate text-sm font-medium">{pick(adapter.label) || adapter.name}</span>
                    <span className="line-clamp-2 text-[13px] text-muted">{pick(adapter.description)}</span>
                  </span>
                  {chosen && <Check className="absolute top-2.5 right-2.5 size-4 text-accent-text" aria-hidden />}
                </button>
              );
            })}
          </div>
        </div>
      ))}
    </div>
  );
}
