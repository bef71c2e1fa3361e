import { useEffect, useState, type ComponentProps, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { Check, CircleAlert, CircleCheck, Copy, Info, LoaderCircle, TriangleAlert } from 'lucide-react';
import { toast } from 'sonner';
import { errorText } from '@/lib/errors';
import { cn, copyText } from '@/lib/utils';
import { Button, IconButton } from './button';

export type Tone = 'neutral' | 'accent' | 'ok' | 'warn' | 'bad';
const BADGE: Record<Tone, string> = {
  neutral: 'bg-sunken text-muted',
  accent: 'bg-accent-soft text-accent-text',
  ok: 'bg-ok-soft text-ok',
  warn: 'bg-warn-soft text-warn',
  bad: 'bg-bad-soft text-bad',
};

export function Badge({ tone = 'neutral', className, ...rest }: ComponentProps<'span'> & { tone?: Tone }) {
  return (
    <span
      className={cn('inline-flex items-center gap-1 rounded-md px-1.5 py-0.5 text-xs font-medium whitespace-nowrap', BADGE[tone], className)}
      {...rest}
    />
  );
}

const DOT: Record<Tone, string> = { neutral: 'bg-line-strong', accent: 'bg-accent', ok: 'bg-ok', warn: 'bg-warn', bad: 'bg-bad' };
export function Dot({ tone, className }: { tone: Tone; className?: string }) {
  return <span className={cn('inline-block size-2 shrink-0 rounded-full', DOT[tone], className)} aria-hidden />;
}

export function Card({ className, ...rest }: ComponentProps<'section'>) {
  return <section className={cn('rounded-xl border bg-surface', className)} {...rest} />;
}

export function Section({ title, description, actions, children, tone }: {
  title: string;
  description?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  tone?: 'danger';
}) {
  return (
    <Card className={cn(tone === 'danger' && 'border-bad/40')}>
      <header className="flex flex-wrap items-start justify-between gap-3 border-b px-5 py-3.5">
        <div className="min-w-0">
          <h2 className="text-[15px] font-semibold">{title}</h2>
          {description && <p className="mt-0.5 text-[13px] text-muted">{description}</p>}
        </div>
        {actions}
      </header>
      <div className="p-5">{children}</div>
    </Card>
  );
}

export function Spinner({ label, className }: { label?: string; className?: string }) {
  const { t } = useTranslation();
  return (
    <div role="status" className={cn('flex items-center justify-center gap-2 p-6 text-sm text-muted', className)}>
      <LoaderCircle className="size-4 animate-spin" aria-hidden />
      {label ?? t('common.loading')}
    </div>
  );
}

export function Skeleton({ className }: { className?: string }) {
  return <div aria-hidden className={cn('animate-pulse rounded-md bg-sunken', className)} />;
}

export function Notice({ tone = 'neutral', children, className, action }: { tone?: Tone; children: ReactNode; className?: string; action?: ReactNode }) {
  const Icon = tone === 'ok' ? CircleCheck : tone === 'warn' ? TriangleAlert : tone === 'bad' ? CircleAlert : Info;
  return (
    <div
      role={tone === 'bad' ? 'alert' : 'note'}
      className={cn('flex items-start gap-2.5 rounded-lg px-3 py-2.5 text-[13px] leading-snug', BADGE[tone], tone === 'neutral' && 'text-text', className)}
    >
      <Icon className="mt-px size-4 shrink-0" aria-hidden />
      <div className="min-w-0 flex-1 break-words">{children}</div>
      {action}
    </div>
  );
}

export function EmptyState({ icon, title, children, action }: { icon?: ReactNode; title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <div className="flex flex-col items-center justify-center gap-2 px-6 py-14 text-center">
      {icon && <div className="mb-1 grid size-12 place-items-center rounded-full bg-sunken text-muted [&_svg]:size-5.5">{icon}</div>}
      <p className="text-[15px] font-medium">{title}</p>
      {children && <div className="max-w-md text-sm text-muted">{children}</div>}
      {action && <div className="mt-2">{action}</div>}
    </div>
  );
}

export function ErrorState({ error, onRetry, className }: { error: unknown; onRetry?: () => void; className?: string }) {
  const { t } = useTranslation();
  return (
    <div role="alert" className={cn('flex flex-col items-center gap-3 px-6 py-12 text-center', className)}>
      <CircleAlert className="size-6 text-bad" aria-hidden />
      <p className="max-w-md text-sm">{errorText(error)}</p>
      {onRetry && <Button onClick={onRetry}>{t('common.retry')}</Button>}
    </div>
  );
}

export function CopyButton({ text, label, withText }: { text: string; label?: string; withText?: boolean }) {
  const { t } = useTranslation();
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 2000);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = async () => {
    if (await copyText(text)) setDone(true);
    else toast.error(t('common.copyFailed'));
  };
  const name = done ? t('common.copied') : (label ?? t('common.copy'));
  const icon = done ? <Check className="size-4 text-ok" aria-hidden /> : <Copy className="size-4" aria-hidden />;
  if (withText) {
    return (
      <Button size="sm" onClick={copy}>
        {icon}
        {name}
      </Button>
    );
  }
  return (
    <IconButton label={name} size="iconSm" onClick={copy}>
      {icon}
    </IconButton>
  );
}

export function CopyRow({ value, label }: { value: string; label?: string }) {
  return (
    <div className="flex items-center gap-2 rounded-md border bg-sunken py-1 pr-1 pl-3">
      <code className="min-w-0 flex-1 overflow-x-auto font-mono text-[13px] whitespace-nowrap">{value}</code>
      <CopyButton text={value} label={label} />
    </div>
  );
}
