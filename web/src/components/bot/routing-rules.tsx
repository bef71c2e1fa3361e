import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { ArrowDown, ArrowUp, GripVertical, Plus, Trash2 } from 'lucide-react';
import type { RoutingRule } from '@/lib/types';
import { cn } from '@/lib/utils';
import { Button, IconButton } from '@/ui/button';
import { Input, Select, type Option } from '@/ui/form';

const TEXT_OPS = ['eq', 'neq', 'contains', 'not_contains', 'regex'];
const OPERATORS: Record<RoutingRule['type'], string[]> = {
  launcher_type: ['eq', 'neq'],
  launcher_id: TEXT_OPS,
  message_content: [...TEXT_OPS, 'starts_with'],
  message_has_element: ['eq', 'neq'],
};
const VALUES: Partial<Record<RoutingRule['type'], string[]>> = {
  launcher_type: ['person', 'group'],
  message_has_element: ['Image', 'Voice', 'File', 'Forward', 'Face', 'At', 'AtAll', 'Quote'],
};
export const DISCARD = '__discard__';

export function RoutingRules({ rules, onChange, pipelines }: { rules: RoutingRule[]; onChange: (rules: RoutingRule[]) => void; pipelines: Option[] }) {
  const { t } = useTranslation();
  const [dragged, setDragged] = useState<number | null>(null);
  const targets = [...pipelines, { value: DISCARD, label: t('routing.discard') }];
  const set = (index: number, part: Partial<RoutingRule>) => onChange(rules.map((rule, i) => (i === index ? { ...rule, ...part } : rule)));
  const move = (from: number, to: number) => {
    if (to < 0 || to >= rules.length || from === to) return;
    const next = rules.slice();
    const [rule] = next.splice(from, 1);
    if (rule) next.splice(to, 0, rule);
    onChange(next);
  };
  return (
    <div className="flex flex-col gap-2">
      <p className="text-sm font-medium">{t('routing.rules')}</p>
      {rules.length === 0 && <p className="text-[13px] text-muted">{t('routing.noRules')}</p>}
      <ol className="flex flex-col gap-2">
        {rules.map((rule, index) => {
          const values = VALUES[rule.type];
          const name = t('routing.rule', { n: index + 1 });
          return (
            <li
              key={index}
              onDragOver={(event) => {
                if (dragged === null) return;
                event.preventDefault();
                if (dragged !== index) {
                  move(dragged, index);
                  setDragged(index);
                }
              }}
              className={cn('flex flex-wrap items-center gap-2 rounded-lg border bg-bg p-2.5', dragged === index && 'opacity-60')}
            >
              <span
                draggable
                onDragStart={(event) => {
                  event.dataTransfer.effectAllowed = 'move';
                  setDragged(index);
                }}
                onDragEnd={() => setDragged(null)}
                className="cursor-grab text-muted"
                aria-hidden
              >
                <GripVertical className="size-4" />
              </span>
              <Select
                size="sm"
                className="w-40 grow sm:grow-0"
                aria-label={t('routing.typeOf', { rule: name })}
                value={rule.type}
                onChange={(type) => set(index, { type: type as RoutingRule['type'], operator: 'eq', value: '' })}
                options={Object.keys(OPERATORS).map((type) => ({ value: type, label: t(`routing.type.${type}`) }))}
              />
              <Select
                size="sm"
                className="w-34 grow sm:grow-0"
                aria-label={t('routing.operatorOf', { rule: name })}
                value={rule.operator}
                onChange={(operator) => set(index, { operator })}
                options={OPERATORS[rule.type].map((op) => ({
                  value: op,
                  label: t(rule.type === 'message_has_element' ? `routing.has.${op}` : `routing.op.${op}`),
                }))}
              />
              {values ? (
                <Select
                  size="sm"
                  className="w-32 grow"
                  aria-label={t('routing.valueOf', { rule: name })}
                  value={rule.value}
                  onChange={(value) => set(index, { value })}
                  placeholder={t('form.choose')}
                  options={values.map((v) => ({ value: v, label: t(`routing.value.${v}`) }))}
                />
              ) : (
                <Input className="h-8 min-w-32 flex-1 text-[13px]" aria-label={t('routing.valueOf', { rule: name })} placeholder={t('routing.value.text')} value={rule.value} onChange={(e) => set(index, { value: e.target.value })} />
              )}
              <span className="text-muted" aria-hidden>→</span>
              <Select
                size="sm"
                className="w-44 grow"
                aria-label={t('routing.targetOf', { rule: name })}
                value={rule.pipeline_uuid}
                onChange={(pipeline_uuid) => set(index, { pipeline_uuid })}
                placeholder={t('routing.choose')}
                options={targets}
              />
              <span className="ml-auto flex">
                <IconButton label={t('form.moveUp')} size="iconSm" disabled={index === 0} onClick={() => move(index, index - 1)}>
                  <ArrowUp className="size-4" aria-hidden />
                </IconButton>
                <IconButton label={t('form.moveDown')} size="iconSm" disabled={index === rules.length - 1} onClick={() => move(index, index + 1)}>
                  <ArrowDown className="size-4" aria-hidden />
                </IconButton>
                <IconButton label={t('routing.remove', { rule: name })} size="iconSm" onClick={() => onChange(rules.filter((_, i) => i !== index))}>
                  <Trash2 className="size-4 text-muted" aria-hidden />
                </IconButton>
              </span>
            </li>
          );
        })}
      </ol>
      <Button
        size="sm"
        className="self-start"
        onClick={() => onChange([...rules, { type: 'launcher_type', operator: 'eq', value: '', pipeline_uuid: pipelines[0]?.value ?? '' }])}
      >
        <Plus className="size-4" aria-hidden />
        {t('routing.add')}
      </Button>
    </div>
  );
}
