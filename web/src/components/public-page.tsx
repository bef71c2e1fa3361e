import type { ReactNode } from 'react';
import { LanguageMenu, ThemeToggle } from './preferences';
import { Wordmark } from './brand';

/** Frame of every page before the session: one card, preferences in the corner. */
export function PublicPage({ title, subtitle, children, footer, wide }: {
  title: string;
  subtitle?: ReactNode;
  children: ReactNode;
  footer?: ReactNode;
  wide?: boolean;
}) {
  return (
    <div className="flex min-h-dvh flex-col bg-[radial-gradient(60rem_30rem_at_50%_-8rem,var(--accent-soft),transparent)]">
      <header className="flex items-center justify-between px-4 py-3 sm:px-6">
        <Wordmark />
        <div className="flex gap-1">
          <ThemeToggle />
          <LanguageMenu />
        </div>
      </header>
      <main className="flex flex-1 items-start justify-center px-4 pt-[min(10vh,6rem)] pb-12">
        <div className={wide ? 'w-full max-w-xl' : 'w-full max-w-[25rem]'}>
          <div className="rounded-2xl border bg-surface p-6 shadow-pop sm:p-8">
            <h1 className="text-xl font-semibold tracking-tight">{title}</h1>
            {subtitle && <p className="mt-1.5 text-sm text-muted">{subtitle}</p>}
            <div className="mt-6">{children}</div>
          </div>
          {footer && <div className="mt-5 text-center text-[13px] text-muted">{footer}</div>}
        </div>
      </main>
    </div>
  );
}
