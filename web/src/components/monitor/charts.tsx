import { useTranslation } from 'react-i18next';
import { Area, AreaChart, Bar, CartesianGrid, ComposedChart, Line, ResponsiveContainer, Tooltip, XAxis, YAxis } from 'recharts';
import type { Bucket } from '@/lib/turns';
import { cn } from '@/lib/utils';
import type { TokenStats } from '@/lib/types';
import { formatNumber, parseTime } from '@/lib/utils';

const AXIS = { fontSize: 12, fill: 'var(--muted)' };
const TIP = {
  contentStyle: { background: 'var(--surface)', border: '1px solid var(--line)', borderRadius: 8, fontSize: 13 },
  labelStyle: { color: 'var(--muted)' },
  cursor: { fill: 'var(--sunken)', stroke: 'var(--line-strong)' },
};

function Legend({ items }: { items: [string, string][] }) {
  return (
    <ul aria-hidden className="mb-1 flex flex-wrap gap-x-4 gap-y-1 text-[13px] text-muted">
      {items.map(([name, color]) => (
        <li key={name} className="flex items-center gap-1.5">
          <span className={cn('size-2.5 rounded-sm', color)} />
          {name}
        </li>
      ))}
    </ul>
  );
}

function timeFormat(lang: string, long: boolean) {
  const format = new Intl.DateTimeFormat(lang, long ? { month: 'short', day: 'numeric', hour: '2-digit' } : { hour: '2-digit', minute: '2-digit' });
  return (time: number) => format.format(time);
}

export function TrafficChart({ buckets, long }: { buckets: Bucket[]; long: boolean }) {
  const { t, i18n } = useTranslation();
  const label = timeFormat(i18n.language, long);
  return (
    <div role="img" aria-label={t('monitor.trafficAlt', { messages: buckets.reduce((s, b) => s + b.messages, 0), calls: buckets.reduce((s, b) => s + b.calls, 0) })}>
      <Legend items={[[t('monitor.messages'), 'bg-accent'], [t('monitor.llmCalls'), 'bg-warn']]} />
      <ResponsiveContainer width="100%" height={230}>
        <AreaChart data={buckets} margin={{ top: 8, right: 8, bottom: 0, left: -18 }}>
          <CartesianGrid stroke="var(--line)" vertical={false} />
          <XAxis dataKey="time" tickFormatter={label} tick={AXIS} stroke="var(--line)" minTickGap={40} />
          <YAxis allowDecimals={false} tick={AXIS} stroke="var(--line)" tickLine={false} axisLine={false} />
          <Tooltip {...TIP} labelFormatter={(time) => label(Number(time))} />
          <Area isAnimationActive={false} type="monotone" dataKey="messages" name={t('monitor.messages')} stroke="var(--accent)" strokeWidth={2} fill="var(--accent)" fillOpacity={0.14} />
          <Area isAnimationActive={false} type="monotone" dataKey="calls" name={t('monitor.llmCalls')} stroke="var(--warn)" strokeWidth={2} fill="var(--warn)" fillOpacity={0.1} />
        </AreaChart>
      </ResponsiveContainer>
    </div>
  );
}

export function TokenChart({ stats }: { stats: TokenStats }) {
  const { t, i18n } = useTranslation();
  const format = new Intl.DateTimeFormat(i18n.language, stats.bucket === 'day' ? { month: 'short', day: 'numeric' } : { day: 'numeric', hour: '2-digit', minute: '2-digit' });
  return (
    <div role="img" aria-label={t('monitor.tokensAlt', { n: formatNumber(stats.summary.total_tokens, i18n.language) })}>
      <Legend items={[[t('monitor.col.input'), 'bg-accent'], [t('monitor.col.output'), 'bg-warn'], [t('monitor.llmCalls'), 'bg-text']]} />
      <ResponsiveContainer width="100%" height={230}>
        <ComposedChart data={stats.timeseries} margin={{ top: 8, right: 8, bottom: 0, left: 0 }}>
          <CartesianGrid stroke="var(--line)" vertical={false} />
          <XAxis dataKey="bucket" tickFormatter={(value) => { const d = parseTime(String(value)); return d ? format.format(d) : String(value); }} tick={AXIS} stroke="var(--line)" minTickGap={40} />
          <YAxis tick={AXIS} stroke="var(--line)" tickLine={false} axisLine={false} width={48} />
          <YAxis yAxisId="calls" orientation="right" allowDecimals={false} tick={AXIS} stroke="var(--line)" tickLine={false} axisLine={false} width={32} />
          <Tooltip {...TIP} />
          <Bar isAnimationActive={false} stackId="t" dataKey="input_tokens" name={t('monitor.col.input')} fill="var(--accent)" fillOpacity={0.75} />
          <Bar isAnimationActive={false} stackId="t" dataKey="output_tokens" name={t('monitor.col.output')} fill="var(--warn)" fillOpacity={0.75} />
          <Line yAxisId="calls" isAnimationActive={false} type="monotone" dataKey="calls" name={t('monitor.llmCalls')} stroke="var(--text)" strokeWidth={1.5} dot={false} />
        </ComposedChart>
      </ResponsiveContainer>
    </div>
  );
}
