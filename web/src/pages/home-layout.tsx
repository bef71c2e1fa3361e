import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Outlet, useLocation, useNavigate, useSearchParams } from 'react-router';
import { Dialog as RadixDialog } from 'radix-ui';
import { ChevronRight, Menu as MenuIcon, PanelLeft } from 'lucide-react';
import { Wordmark } from '@/components/brand';
import { CrumbContext, type Crumb } from '@/components/crumbs';
import { LanguageMenu, ThemeToggle } from '@/components/preferences';
import { SettingsHost } from '@/components/settings/settings-host';
import { Sidebar } from '@/components/sidebar';
import { useCan } from '@/lib/session';
import { readJson, local } from '@/lib/storage';
import { IconButton } from '@/ui/button';

const OPEN_KEY = 'sidebar_open';

export function Component() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const location = useLocation();
  const [params] = useSearchParams();
  const [open, setOpen] = useState(() => readJson(OPEN_KEY, true));
  const [drawer, setDrawer] = useState(false);
  const [crumb, setCrumb] = useState<Crumb | null>(null);
  const mayManage = useCan('resource.manage');

  useEffect(() => setDrawer(false), [location.pathname, location.search]);
  // A link to a create form is of no use to somebody who may not create.
  const forbidden = params.get('id') === 'new' && !mayManage;
  useEffect(() => {
    if (forbidden) void navigate(location.pathname, { replace: true });
  }, [forbidden, location.pathname, navigate]);

  const toggle = () => {
    setOpen(!open);
    local.set(OPEN_KEY, JSON.stringify(!open));
  };

  return (
    <CrumbContext value={setCrumb}>
      <a href="#main" className="sr-only z-70 rounded-md bg-accent px-3 py-2 text-on-accent focus:not-sr-only focus:fixed focus:top-2 focus:left-2">
        {t('shell.skipToContent')}
      </a>
      <div className="flex h-dvh">
        {open && (
          <aside aria-label={t('shell.navigation')} className="hidden w-62 shrink-0 border-r bg-surface md:block">
            <Sidebar />
          </aside>
        )}
        <RadixDialog.Root open={drawer} onOpenChange={setDrawer}>
          <RadixDialog.Portal>
            <RadixDialog.Overlay className="fixed inset-0 z-40 animate-fade bg-black/40 md:hidden" />
            <RadixDialog.Content
              aria-describedby={undefined}
              className="fixed inset-y-0 left-0 z-40 w-[min(18rem,85vw)] border-r bg-surface shadow-pop focus:outline-none md:hidden"
            >
              <RadixDialog.Title className="sr-only">{t('shell.navigation')}</RadixDialog.Title>
              <Sidebar />
            </RadixDialog.Content>
          </RadixDialog.Portal>
        </RadixDialog.Root>

        <div className="flex min-w-0 flex-1 flex-col">
          <header className="flex h-13 shrink-0 items-center gap-2 border-b bg-surface px-2 sm:px-4">
            <IconButton label={t('shell.openNavigation')} className="md:hidden" onClick={() => setDrawer(true)}>
              <MenuIcon className="size-4.5" aria-hidden />
            </IconButton>
            <IconButton label={t(open ? 'shell.hideSidebar' : 'shell.showSidebar')} aria-expanded={open} className="hidden md:inline-flex" onClick={toggle}>
              <PanelLeft className="size-4.5" aria-hidden />
            </IconButton>
            {!open && <Wordmark className="mr-2 hidden md:flex" />}
            <nav aria-label={t('shell.breadcrumb')} className="min-w-0 flex-1">
              <ol className="flex items-center gap-1.5 text-sm">
                {crumb?.path.map((part, index) => (
                  <li key={index} className="flex min-w-0 items-center gap-1.5">
                    {index > 0 && <ChevronRight className="size-3.5 shrink-0 text-muted" aria-hidden />}
                    <span
                      className={index === crumb.path.length - 1 ? 'truncate font-medium' : 'truncate text-muted'}
                      aria-current={index === crumb.path.length - 1 ? 'page' : undefined}
                    >
                      {part}
                    </span>
                  </li>
                ))}
              </ol>
            </nav>
            <ThemeToggle />
            <LanguageMenu />
          </header>
          <main id="main" tabIndex={-1} className="min-h-0 flex-1 overflow-y-auto focus:outline-none">
            <div className="mx-auto h-full w-full max-w-[1360px] px-3 py-4 sm:px-6 sm:py-6">
              <Outlet />
            </div>
          </main>
        </div>
      </div>
      <SettingsHost />
    </CrumbContext>
  );
}
