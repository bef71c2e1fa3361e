import { useEffect, useRef, useState, type FormEvent } from 'react';
import { useTranslation } from 'react-i18next';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { ArrowLeft, MessagesSquare, ShieldCheck, ThumbsDown, ThumbsUp, Trash2 } from 'lucide-react';
import { toast } from 'sonner';
import { ChainView } from '@/components/chain-view';
import { ToolEntry } from '@/components/monitor/turn-card';
import { api } from '@/lib/api';
import { errorText } from '@/lib/errors';
import { hasContent, parseChain } from '@/lib/turns';
import type { BotAdmin, MonFeedback, MonMessage, MonSession, MonTool } from '@/lib/types';
import { cn, formatAgo, formatTime, parseTime } from '@/lib/utils';
import { Button, IconButton } from '@/ui/button';
import { Badge, Card, CopyButton, Dot, EmptyState, ErrorState, Skeleton, Spinner } from '@/ui/feedback';
import { Input, Select } from '@/ui/form';
import { Dialog } from '@/ui/overlay';

function useAdmins(uuid: string) {
  return useQuery({
    queryKey: ['bot-admins', uuid],
    queryFn: async () => (await api.get<{ admins: BotAdmin[] }>(`/platform/bots/${uuid}/admins`)).admins,
  });
}

export function BotSessions({ uuid, mayManage }: { uuid: string; mayManage: boolean }) {
  const { t, i18n } = useTranslation();
  const lang = i18n.language;
  const [selected, setSelected] = useState<string | null>(null);
  const [admins, setAdmins] = useState(false);
  const list = useQuery({
    queryKey: ['bot-sessions', uuid],
    queryFn: async () => (await api.get<{ sessions: MonSession[] }>('/monitoring/sessions', { botId: uuid, limit: 100 })).sessions,
    refetchInterval: 10_000,
  });
  const current = list.data?.find((s) => s.session_id === selected) ?? null;
  return (
    <div className="flex flex-col gap-3">
      <div className="flex justify-end">
        <Button size="sm" onClick={() => setAdmins(true)}>
          <ShieldCheck className="size-4" aria-hidden />
          {t('sessions.admins')}
        </Button>
      </div>
      {list.isPending && <Skeleton className="h-48" />}
      {list.isError && <ErrorState error={list.error} onRetry={() => void list.refetch()} />}
      {list.data?.length === 0 && <EmptyState icon={<MessagesSquare aria-hidden />} title={t('sessions.none')}>{t('sessions.noneHint')}</EmptyState>}
      {list.data && list.data.length > 0 && (
        <Card className="grid h-[65vh] overflow-hidden md:grid-cols-[19rem_1fr]">
          <ul className={cn('divide-y overflow-y-auto md:border-r', current && 'hidden md:block')}>
            {list.data.map((item) => (
              <li key={item.session_id}>
                <button
                  type="button"
                  aria-current={item.session_id === selected || undefined}
                  onClick={() => setSelected(item.session_id)}
                  className={cn('w-full px-4 py-2.5 text-left', item.session_id === selected ? 'bg-accent-soft' : 'hover:bg-sunken')}
                >
                  <span className="flex items-center gap-2 text-sm font-medium">
                    {item.is_active && <Dot tone="ok" />}
                    <span className="min-w-0 flex-1 truncate">{item.user_name || item.user_id || item.session_id}</span>
                    <span className="text-xs font-normal text-muted">{formatAgo(item.last_activity, lang)}</span>
                  </span>
                  <span className="flex items-center gap-2 text-xs text-muted">
                    {item.platform && <Badge>{item.platform}</Badge>}
                    <span className="min-w-0 flex-1 truncate">{item.session_id}</span>
                    <span className="tabular-nums">{t('sessions.count', { n: item.message_count })}</span>
                  </span>
                </button>
              </li>
            ))}
          </ul>
          <div className={cn('min-h-0 min-w-0', !current && 'hidden md:block')}>
            {current ? (
              <Timeline bot={uuid} session={current} mayManage={mayManage} onBack={() => setSelected(null)} />
            ) : (
              <EmptyState icon={<MessagesSquare aria-hidden />} title={t('sessions.select')} />
            )}
          </div>
        </Card>
      )}
      {admins && <AdminDialog uuid={uuid} mayManage={mayManage} onClose={() => setAdmins(false)} />}
    </div>
  );
}

function Timeline({ bot, session, mayManage, onBack }: { bot: string; session: MonSession; mayManage: boolean; onBack: () => void }) {
  const { t, i18n } = useTranslation();
  const client = useQueryClient();
  const admins = useAdmins(bot);
  const query = useQuery({
    queryKey: ['bot-session', bot, session.session_id],
    queryFn: async () => {
      const filter = { botId: bot, sessionId: session.session_id, limit: 200 };
      const [messages, tools, feedback] = await Promise.all([
        api.get<{ messages: MonMessage[] }>('/monitoring/messages', filter),
        api.get<{ tool_calls: MonTool[] }>('/monitoring/tool-calls', filter),
        api.get<{ feedback: MonFeedback[] }>('/monitoring/feedback', { botId: bot, limit: 200 }),
      ]);
      return { messages: messages.messages, tools: tools.tool_calls ?? [], feedback: feedback.feedback ?? [] };
    },
    refetchInterval: 5000,
  });
  const box = useRef<HTMLDivElement>(null);
  const shown = query.data?.messages.length ?? 0;
  // The newest is what one looks for.
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [shown]);
  const type = session.platform === 'group' ? 'group' : 'person';
  const id = session.session_id.replace(/^(person|group)_/, '');
  const admin = admins.data?.find((a) => a.launcher_type === type && a.launcher_id === id);
  const toggle = async () => {
    try {
      if (admin) await api.del(`/platform/bots/${bot}/admins/${admin.id}`);
      else await api.post(`/platform/bots/${bot}/admins`, { launcher_type: type, launcher_id: id });
      await client.invalidateQueries({ queryKey: ['bot-admins', bot] });
    } catch (error) {
      toast.error(errorText(error));
    }
  };
  const entries = query.data
    ? [
        ...query.data.messages.filter((m) => hasContent(m.message_content)).map((m) => ({ time: parseTime(m.timestamp)?.getTime() ?? 0, id: m.id, message: m, tool: null })),
        ...query.data.tools.map((tool) => ({ time: parseTime(tool.timestamp)?.getTime() ?? 0, id: tool.id, message: null, tool })),
      ].sort((a, b) => a.time - b.time)
    : [];
  return (
    <div className="flex h-full flex-col">
      <div className="flex items-center gap-2 border-b px-4 py-2.5">
        <IconButton label={t('common.back')} size="iconSm" className="md:hidden" onClick={onBack}>
          <ArrowLeft className="size-4" aria-hidden />
        </IconButton>
        <span className="min-w-0 flex-1 truncate text-sm font-medium">{session.user_name || session.user_id || session.session_id}</span>
        {session.user_id && <CopyButton text={session.user_id} label={t('sessions.copyUser')} />}
        {mayManage && (
          <Button size="sm" variant={admin ? 'primary' : 'secondary'} aria-pressed={Boolean(admin)} onClick={() => void toggle()}>
            <ShieldCheck className="size-4" aria-hidden />
            {t('sessions.admin')}
          </Button>
        )}
      </div>
      <div ref={box} tabIndex={0} role="log" aria-label={t('chat.log')} className="flex min-h-0 flex-1 flex-col gap-3 overflow-y-auto p-4">
        {query.isPending && <Spinner />}
        {query.isError && <ErrorState error={query.error} onRetry={() => void query.refetch()} />}
        {entries.map((entry) => {
          if (entry.tool) return <div key={entry.id} className="max-w-[85%]"><ToolEntry tool={entry.tool} /></div>;
          if (!entry.message) return null;
          const m = entry.message;
          const mine = m.role !== 'assistant' && m.role !== 'tool';
          const discarded = m.status === 'discarded';
          const feedback = query.data?.feedback.find((f) => f.message_id === m.id || (f.stream_id && f.stream_id === m.id));
          return (
            <div key={entry.id} className={cn('flex max-w-[85%] flex-col gap-1', mine ? 'self-end' : 'self-start')}>
              <div className={cn('rounded-xl px-3 py-2', mine ? 'bg-accent-soft' : 'bg-sunken', m.status === 'error' && 'border border-bad/50')}>
                <ChainView chain={parseChain(m.message_content)} />
              </div>
              <span className={cn('flex items-center gap-1.5 text-xs text-muted', mine && 'self-end')}>
                {discarded && <Badge>{t('delivery.state.discarded')}</Badge>}
                {m.status === 'error' && <Badge tone="bad">{t('status.error')}</Badge>}
                {feedback?.feedback_type === 1 && <ThumbsUp className="size-3 text-ok" aria-label={t('feedback.like')} />}
                {feedback?.feedback_type === 2 && <ThumbsDown className="size-3 text-bad" aria-label={t('feedback.dislike')} />}
                <time>{formatTime(m.timestamp, i18n.language)}</time>
              </span>
            </div>
          );
        })}
      </div>
    </div>
  );
}

function AdminDialog({ uuid, mayManage, onClose }: { uuid: string; mayManage: boolean; onClose: () => void }) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const admins = useAdmins(uuid);
  const [type, setType] = useState('person');
  const [id, setId] = useState('');
  const [busy, setBusy] = useState(false);
  const change = async (run: () => Promise<unknown>) => {
    setBusy(true);
    try {
      await run();
      await client.invalidateQueries({ queryKey: ['bot-admins', uuid] });
      return true;
    } catch (error) {
      toast.error(errorText(error));
      return false;
    } finally {
      setBusy(false);
    }
  };
  const add = async (event: FormEvent) => {
    event.preventDefault();
    if (!id.trim()) return;
    if (await change(() => api.post(`/platform/bots/${uuid}/admins`, { launcher_type: type, launcher_id: id.trim() }))) setId('');
  };
  return (
    <Dialog open onOpenChange={onClose} title={t('sessions.admins')} description={t('sessions.adminsHint')}>
      {mayManage && (
        <form onSubmit={add} className="mb-4 flex gap-2">
          <Select
            className="w-32"
            aria-label={t('sessions.adminType')}
            value={type}
            onChange={setType}
            options={['person', 'group'].map((v) => ({ value: v, label: t(`routing.value.${v}`) }))}
          />
          <Input aria-label={t('sessions.adminId')} placeholder={t('sessions.adminId')} value={id} onChange={(e) => setId(e.target.value)} />
          <Button type="submit" variant="primary" busy={busy}>{t('common.add')}</Button>
        </form>
      )}
      {admins.isPending && <Skeleton className="h-10" />}
      {admins.isError && <ErrorState error={admins.error} onRetry={() => void admins.refetch()} className="py-3" />}
      {admins.data?.length === 0 && <p className="text-sm text-muted">{t('sessions.noAdmins')}</p>}
      <ul className="divide-y rounded-lg border empty:hidden">
        {admins.data?.map((admin) => (
          <li key={admin.id} className="flex items-center gap-3 px-3 py-2 text-sm">
            <Badge>{t(`routing.value.${admin.launcher_type}`, { defaultValue: admin.launcher_type })}</Badge>
            <code className="min-w-0 flex-1 truncate font-mono text-[13px]">{admin.launcher_id}</code>
            {mayManage && (
              <IconButton label={t('sessions.removeAdmin', { id: admin.launcher_id })} size="iconSm" disabled={busy} onClick={() => void change(() => api.del(`/platform/bots/${uuid}/admins/${admin.id}`))}>
                <Trash2 className="size-4 text-muted" aria-hidden />
              </IconButton>
            )}
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
