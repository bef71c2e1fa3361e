import { useId } from 'react';
import { useTranslation } from 'react-i18next';
import { Download, ExternalLink } from 'lucide-react';
import { API_BASE } from '@/lib/api';
import { pick } from '@/lib/i18n';
import { embedCode, helpLink } from '@/lib/platform';
import { useBots } from '@/lib/queries';
import type { SystemContext } from '@/lib/form-values';
import type { FieldSpec } from '@/lib/types';
import { buttonClass } from '@/ui/button';
import { CopyButton, CopyRow } from '@/ui/feedback';
import { Input, Select, type FieldControl } from '@/ui/form';

export function SuggestField({ value, onChange, disabled, control, options }: {
  value: string;
  onChange: (value: string) => void;
  disabled: boolean;
  control: FieldControl;
  options: NonNullable<FieldSpec['options']>;
}) {
  const listId = useId();
  return (
    <>
      <Input {...control} list={listId} value={value} disabled={disabled} onChange={(event) => onChange(event.target.value)} />
      <datalist id={listId}>
        {options.map((option) => (
          <option key={option.name} value={option.name} label={pick(option.label) || undefined} />
        ))}
      </datalist>
    </>
  );
}

export function BotField({ value, onChange, disabled, control }: { value: string; onChange: (value: string) => void; disabled: boolean; control: FieldControl }) {
  const { t } = useTranslation();
  const bots = useBots();
  return (
    <Select
      {...control}
      className="max-w-md"
      value={value}
      disabled={disabled}
      onChange={onChange}
      placeholder={t('form.choose')}
      options={(bots.data ?? []).map((bot) => ({ value: bot.uuid, label: bot.name }))}
    />
  );
}

function Shown({ label, hint, children }: { label: string; hint?: string; children: React.ReactNode }) {
  return (
    <div className="flex flex-col gap-1.5">
      <span className="text-sm font-medium">{label}</span>
      {children}
      {hint && <p className="text-[13px] leading-snug text-muted">{hint}</p>}
    </div>
  );
}

export function WebhookField({ label, hint, system }: { label: string; hint?: string; system: SystemContext }) {
  const extra = system.extra_webhook_url ? String(system.extra_webhook_url) : null;
  return (
    <Shown label={label} hint={hint}>
      <CopyRow value={String(system.webhook_url)} label={label} />
      {extra && <CopyRow value={extra} label={label} />}
    </Shown>
  );
}

export function EmbedField({ label, hint, system, title }: { label: string; hint?: string; system: SystemContext; title: string }) {
  const code = embedCode(API_BASE || window.location.origin, String(system.bot_uuid), title);
  return (
    <Shown label={label} hint={hint}>
      <div className="relative">
        <pre className="overflow-x-auto rounded-md border bg-sunken p-3 pr-11 font-mono text-[13px] whitespace-pre-wrap break-all">{code}</pre>
        <span className="absolute top-1.5 right-1.5"><CopyButton text={code} /></span>
      </div>
    </Shown>
  );
}

export function DownloadField({ field, label, hint }: { field: FieldSpec; label: string; hint?: string }) {
  const help = helpLink(field.help_links);
  return (
    <Shown label={label} hint={hint}>
      <div className="flex flex-wrap gap-2">
        {field.url && (
          <a className={buttonClass('secondary', 'sm')} href={field.url} download={field.download_filename ?? true}>
            <Download className="size-4" aria-hidden />
            {field.download_filename ?? label}
          </a>
        )}
        {help && (
          <a className={buttonClass('ghost', 'sm')} href={help} target="_blank" rel="noreferrer noopener">
            {pick(field.help_label) || label}
            <ExternalLink className="size-3.5" aria-hidden />
          </a>
        )}
      </div>
    </Shown>
  );
}
