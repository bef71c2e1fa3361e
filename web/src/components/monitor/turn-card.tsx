import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { ChevronDown, Wrench } from 'lucide-react';
import { ChainView } from '@/components/chain-view';
import { parseChain, type Turn } from '@/lib/turns';
import type { MonTool } from '@/lib/types';
import { cn, formatDuration, formatNumber, formatTime, parseTime } from '@/lib/utils';
import { Badge, Notice, type Tone } from '@/ui/feedback';

const TONE: Record<string, Tone> = { success: 'ok', error: 'bad', pending: 'warn', running: 'accent' };

function plain(content: string | undefined): string {
  return parseChain(content)
    .map((item) => (item.type === 'Plain' ? String(item.text ?? '') : item.type === 'Source' ? '' : `[${item.type}]`))
    .join('');
}

export function ToolEntry({ tool }: { tool: MonTool }) {
  const { t } = useTranslation();
  const [open, setOpen] = useState(false);
  return (
    <div className="rounded-lg border bg-bg">
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="flex w-full items-center gap-2 px-3 py-1.5 text-left text-[13px]">
        <Wrench className="size-3.5 text-muted" aria-hidden />
        <span className="min-w-0 flex-1 truncate font-mono">{tool.tool_name}</span>
        <Badge tone={TONE[tool.status] ?? 'neutral'}>{t(`status.${tool.status}`, { defaultValue: tool.status })}</Badge>
        {tool.status !== 'running' && <span className="text-muted tabular-nums">{formatDuration(tool.duration)}</span>}
        <ChevronDown className={cn('size-3.5 text-muted transition-transform', open && 'rotate-180')} aria-hidden />
      </button>
      {open && (
        <div className="flex flex-col gap-2 border-t px-3 py-2 text-[13px]">
          <p className="text-muted">{t('turn.arguments')}</p>
          <pre className="max-h-48 overflow-auto rounded bg-sunken p-2 text-xs whitespace-pre-wrap">{tool.arguments || '–'}</pre>
          <p className="text-muted">{t('turn.result')}</p>
          <pre className="max-h-48 overflow-auto rounded bg-sunken p-2 text-xs whitespace-pre-wrap">{tool.result || '–'}</pre>
          {tool.error_message && <Notice tone="bad">{tool.error_message}</Notice>}
        </div>
      )}
    </div>
  );
}

export function TurnCard({ turn }: { turn: Turn }) {
  const { t, i18n } = useTranslation();
  const [open, setOpen] = useState(false);
  const lang = i18n.language;
  const head = turn.user ?? turn.replies[0];
  const first = turn.user ? turn.replies[0] : undefined;
  const trace = [
    ...turn.calls.map((call) => ({ time: parseTime(call.timestamp)?.getTime() ?? 0, id: `c${call.id}`, call, tool: null })),
    ...turn.tools.map((tool) => ({ time: parseTime(tool.timestamp)?.getTime() ?? 0, id: `t${tool.id}`, call: null, tool })),
  ].sort((a, b) => a.time - b.time);
  return (
    <li className="px-4 py-3">
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="flex w-full items-start gap-3 rounded-md text-left">
        <span className="min-w-0 flex-1">
          <span className="flex flex-wrap items-center gap-x-2 gap-y-1 text-xs text-muted">
            <Badge tone={TONE[turn.status]}>{t(`status.${turn.status}`)}</Badge>
            <span className="font-medium text-text">{head?.user_name || head?.user_id || t('turn.unknownUser')}</span>
            <span>{head?.bot_name}</span>
            <span aria-hidden>·</span>
            <span>{head?.pipeline_name}</span>
            <time className="ml-auto">{formatTime(head?.timestamp, lang)}</time>
          </span>
          <span className="mt-1 line-clamp-2 block text-sm">{plain(head?.message_content)}</span>
          {first && <span className="mt-0.5 line-clamp-2 block text-sm text-muted">{plain(first.message_content)}</span>}
          <span className="mt-1.5 flex flex-wrap gap-1.5">
            {turn.replies.length > 1 && <Badge>{t('turn.moreReplies', { n: turn.replies.length - 1 })}</Badge>}
            {turn.calls.length > 0 && <Badge>{t('turn.llm', { n: turn.calls.length })}</Badge>}
            {turn.tools.length > 0 && <Badge>{t('turn.tools', { n: turn.tools.length })}</Badge>}
            {turn.tokens > 0 && <Badge>{t('turn.tokens', { n: formatNumber(turn.tokens, lang) })}</Badge>}
            {turn.duration > 0 && <Badge>{formatDuration(turn.duration)}</Badge>}
            {turn.errors.length > 0 && <Badge tone="bad">{t('turn.errors', { n: turn.errors.length })}</Badge>}
          </span>
        </span>
        <ChevronDown className={cn('mt-1 size-4 shrink-0 text-muted transition-transform', open && 'rotate-180')} aria-hidden />
      </button>
      {open && (
        <div className="mt-3 flex flex-col gap-3 border-l-2 border-line pl-4">
          {turn.user && <ChainView chain={parseChain(turn.user.message_content)} />}
          {trace.map((entry) =>
            entry.tool ? (
              <ToolEntry key={entry.id} tool={entry.tool} />
            ) : entry.call ? (
              <div key={entry.id} className="text-[13px] text-muted">
                <span className="font-mono text-text">{entry.call.model_name}</span>{' '}
                {t('turn.callLine', { input: entry.call.input_tokens, output: entry.call.output_tokens, time: formatDuration(entry.call.duration) })}
                {entry.call.error_message && <Notice tone="bad" className="mt-1">{entry.call.error_message}</Notice>}
              </div>
            ) : null,
          )}
          {turn.replies.map((reply) => (
            <div key={reply.id} className="rounded-lg bg-sunken px-3 py-2">
              <ChainView chain={parseChain(reply.message_content)} />
            </div>
          ))}
          {turn.errors.map((error) => (
            <Notice key={error.id} tone="bad">
              <span className="font-medium">{error.error_type}</span>: {error.error_message}
            </Notice>
          ))}
          <code className="truncate font-mono text-xs text-muted">{turn.sessionId}</code>
        </div>
      )}
    </li>
  );
}
