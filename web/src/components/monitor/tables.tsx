import { useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { ChevronDown, CircleCheck, Cpu, MessagesSquare } from 'lucide-react';
import { groupTurns } from '@/lib/turns';
import type { MonCall, MonData, MonError } from '@/lib/types';
import { cn, formatDuration, formatNumber, formatTime } from '@/lib/utils';
import { Badge, Card, EmptyState } from '@/ui/feedback';
import { TurnCard } from './turn-card';

export function Turns({ data }: { data: MonData }) {
  const { t } = useTranslation();
  const turns = useMemo(() => groupTurns(data.messages ?? [], data.llmCalls ?? [], data.toolCalls ?? [], data.errors ?? []), [data]);
  if (turns.length === 0) return <EmptyState icon={<MessagesSquare aria-hidden />} title={t('monitor.noMessages')}>{t('monitor.noMessagesHint')}</EmptyState>;
  return (
    <Card>
      <ul className="divide-y">
        {turns.map((turn) => (
          <TurnCard key={turn.id} turn={turn} />
        ))}
      </ul>
    </Card>
  );
}

export function Calls({ calls }: { calls: MonCall[] }) {
  const { t, i18n } = useTranslation();
  const lang = i18n.language;
  if (calls.length === 0) return <EmptyState icon={<Cpu aria-hidden />} title={t('monitor.noCalls')} />;
  return (
    <Card className="overflow-x-auto">
      <table className="w-full text-sm">
        <thead className="border-b text-left text-[13px] text-muted">
          <tr>
            <th scope="col" className="px-4 py-2 font-medium">{t('monitor.col.time')}</th>
            <th scope="col" className="px-4 py-2 font-medium">{t('monitor.col.model')}</th>
            <th scope="col" className="px-4 py-2 font-medium">{t('monitor.col.status')}</th>
            <th scope="col" className="px-4 py-2 text-right font-medium">{t('monitor.col.input')}</th>
            <th scope="col" className="px-4 py-2 text-right font-medium">{t('monitor.col.output')}</th>
            <th scope="col" className="px-4 py-2 text-right font-medium">{t('monitor.col.duration')}</th>
            <th scope="col" className="px-4 py-2 font-medium">{t('monitor.col.bot')}</th>
          </tr>
        </thead>
        <tbody className="divide-y">
          {calls.map((call) => (
            <tr key={call.id}>
              <td className="px-4 py-2 whitespace-nowrap text-muted">{formatTime(call.timestamp, lang)}</td>
              <td className="px-4 py-2 font-mono text-[13px]">{call.model_name}</td>
              <td className="px-4 py-2" title={call.error_message ?? undefined}>
                <Badge tone={call.status === 'error' ? 'bad' : 'ok'}>{t(`status.${call.status}`, { defaultValue: call.status })}</Badge>
                {call.error_message && <p className="mt-0.5 max-w-72 text-xs break-words text-bad">{call.error_message}</p>}
              </td>
              <td className="px-4 py-2 text-right tabular-nums">{formatNumber(call.input_tokens, lang)}</td>
              <td className="px-4 py-2 text-right tabular-nums">{formatNumber(call.output_tokens, lang)}</td>
              <td className="px-4 py-2 text-right whitespace-nowrap tabular-nums">{formatDuration(call.duration)}</td>
              <td className="px-4 py-2 text-muted">{call.bot_name}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

function ErrorRow({ error }: { error: MonError }) {
  const { t, i18n } = useTranslation();
  const [open, setOpen] = useState(false);
  return (
    <li className="px-4 py-3">
      <div className="flex flex-wrap items-center gap-2 text-xs text-muted">
        <Badge tone="bad">{error.error_type}</Badge>
        <span>{error.bot_name}</span>
        <span aria-hidden>·</span>
        <span>{error.pipeline_name}</span>
        <time className="ml-auto">{formatTime(error.timestamp, i18n.language)}</time>
      </div>
      <p className="mt-1 text-sm break-words">{error.error_message}</p>
      {error.stack_trace && (
        <>
          <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="mt-1 inline-flex items-center gap-1 text-xs text-accent-text">
            {t('common.details')}
            <ChevronDown className={cn('size-3 transition-transform', open && 'rotate-180')} aria-hidden />
          </button>
          {open && <pre className="mt-1 max-h-56 overflow-auto rounded-md bg-sunken p-2 text-xs whitespace-pre-wrap">{error.stack_trace}</pre>}
        </>
      )}
    </li>
  );
}

export function Errors({ errors }: { errors: MonError[] }) {
  const { t } = useTranslation();
  if (errors.length === 0) return <EmptyState icon={<CircleCheck aria-hidden />} title={t('monitor.noErrors')}>{t('monitor.noErrorsHint')}</EmptyState>;
  return (
    <Card>
      <ul className="divide-y">
        {errors.map((error) => (
          <ErrorRow key={error.id} error={error} />
        ))}
      </ul>
    </Card>
  );
}

export function StatCard({ label, value, sub }: { label: string; value: string; sub?: string }) {
  return (
    <Card className="px-4 py-3.5">
      <p className="text-[13px] text-muted">{label}</p>
      <p className="mt-1 text-2xl font-semibold tracking-tight tabular-nums">{value}</p>
      {sub && <p className="mt-0.5 text-xs text-muted">{sub}</p>}
    </Card>
  );
}
