import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from 'react-router/dom';
import { Toaster } from 'sonner';
import { router } from './app';
import { setSessionLostHandler } from './lib/api';
import { initI18n } from './lib/i18n';
import { queryClient } from './lib/queries';
import { initTheme, isDark, useTheme } from './lib/theme';
import { TooltipProvider } from './ui/overlay';
import './styles.css';

function Root() {
  useTheme();
  return (
    <QueryClientProvider client={queryClient}>
      <TooltipProvider delayDuration={250}>
        <RouterProvider router={router} />
        <Toaster position="top-center" theme={isDark() ? 'dark' : 'light'} richColors closeButton={false} />
      </TooltipProvider>
    </QueryClientProvider>
  );
}

initTheme();
setSessionLostHandler(() => {
  queryClient.clear();
  void router.navigate('/login', { replace: true });
});
void initI18n().then(() => {
  const host = document.getElementById('root');
  if (host) createRoot(host).render(<StrictMode><Root /></StrictMode>);
});
