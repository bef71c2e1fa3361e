import { useId } from 'react';
import { useTranslation } from 'react-i18next';
import { useTools } from '@/lib/queries';
import { allow, isAllowed, toolKey, unknownNames } from '@/lib/tools';
import type { ToolRow, Values } from '@/lib/types';
import { Badge, ErrorState, Notice, Spinner } from '@/ui/feedback';
import { Switch, type FieldControl } from '@/ui/form';

const SOURCES: ToolRow['source'][] = ['builtin', 'skill', 'plugin', 'mcp'];

function Row({ tool, on, onChange, disabled }: { tool: ToolRow; on: boolean; onChange: (on: boolean) => void; disabled: boolean }) {
  const { t } = useTranslation();
  const id = useId();
  return (
    <li className="flex items-start gap-3 px-3 py-2">
      <input id={id} type="checkbox" className="mt-1 size-4 accent-accent" checked={on} disabled={disabled} onChange={(event) => onChange(event.target.checked)} />
      <label htmlFor={id} className="min-w-0 flex-1">
        <span className="flex flex-wrap items-center gap-2">
          <code className="font-mono text-[13px]">{toolKey(tool)}</code>
          {tool.source !== 'builtin' && <span className="text-xs text-muted">{tool.source_name}</span>}
          {tool.name_clash && <Badge tone="warn">{t('tools.clash', { name: tool.name })}</Badge>}
        </span>
        <span className="block text-[13px] leading-snug text-muted">{tool.human_desc || tool.description}</span>
      </label>
    </li>
  );
}

/** Which tools the agent may call: all but those taken out, or only those chosen. */
export function ToolsField({ values, merge, disabled, control }: {
  values: Values;
  merge: (part: Values) => void;
  disabled: boolean;
  control: FieldControl;
}) {
  const { t } = useTranslation();
  const allId = useId();
  const tools = useTools();
  const all = values['enable-all-tools'] !== false;
  const list = tools.data ?? [];
  const gone = tools.data ? unknownNames(values, list) : [];
  return (
    <div {...control} role="group" className="flex flex-col gap-3">
      <div className="flex items-center gap-3">
        <Switch id={allId} checked={all} disabled={disabled} onCheckedChange={(on) => merge({ 'enable-all-tools': on })} />
        <label htmlFor={allId} className="text-sm">{t('tools.all')}</label>
      </div>
      <p className="text-[13px] text-muted">{t(all ? 'tools.allHint' : 'tools.someHint')}</p>
      {tools.isPending && <Spinner />}
      {tools.error && <ErrorState error={tools.error} onRetry={() => void tools.refetch()} className="py-2" />}
      {tools.data && list.length === 0 && <Notice>{t('tools.none')}</Notice>}
      {SOURCES.filter((source) => list.some((tool) => tool.source === source)).map((source) => (
        <section key={source} aria-label={t(`tools.source.${source}`)} className="rounded-lg border">
          <h4 className="border-b px-3 py-1.5 text-[13px] font-medium">{t(`tools.source.${source}`)}</h4>
          <ul className="divide-y">
            {list.filter((tool) => tool.source === source).map((tool) => (
              <Row
                key={`${tool.source_id ?? tool.source_name}/${toolKey(tool)}`}
                tool={tool}
                on={isAllowed(values, tool)}
                disabled={disabled}
                onChange={(on) => merge(allow(values, tool, on))}
              />
            ))}
          </ul>
        </section>
      ))}
      {gone.length > 0 && <p className="text-[13px] text-muted">{t('tools.gone', { names: gone.join(', ') })}</p>}
    </div>
  );
}
